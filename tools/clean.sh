#!/usr/bin/env bash
# Removes what running and testing left. Keeps .venv and the jars, which take a network to get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

home="${BALLAST_HOME:-.ballast}"
if [[ -d "$home" ]]; then
    # Processes of a running stack would go on writing into what is removed here.
    for pid_file in "$home"/airflow/run/*.json; do
        if [[ -e "$pid_file" ]]; then
            pid="$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$pid_file")"
            if [[ -n "$pid" ]] && kill -0 "$pid" 2>/dev/null; then
                echo "error: process $pid of $pid_file still runs: stop it (Ctrl-C in its" >&2
                echo "terminal, or kill $pid), then run make clean again" >&2
                exit 1
            fi
        fi
    done
    find "$home" -mindepth 1 -maxdepth 1 ! -name jars -exec rm -rf {} +
fi
rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
    build dist spark-warehouse metastore_db derby.log
find . -path ./.venv -prune -o -path ./.git -prune -o -type d -name __pycache__ -print0 |
    xargs -0 --no-run-if-empty rm -rf
echo "clean: removed what running left under $home, and caches"
echo "clean: to remove everything, also: rm -rf .venv $home"
