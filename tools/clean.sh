#!/usr/bin/env bash
# Removes the files of runs and tests. Keeps .venv and the jars, which need network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shopt -s nullglob

home="${BALLAST_HOME:-.ballast}"

# Processes of a running stack would write into the removed folders.
refuse_while_running() {
    local record pid
    for record in "$home"/run/*.json "$home"/*/run/*.json; do
        pid="$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$record")"
        if [[ -n "$pid" ]] && ps -o args= -p "$pid" 2>/dev/null | grep -qE 'airflow|examples'; then
            echo "error: process $pid ($(basename "$record" .json)) still runs: stop it with Ctrl-C" >&2
            echo "in its terminal, or kill $pid, then run make clean again" >&2
            exit 1
        fi
    done
}

if [[ -d "$home" ]]; then
    refuse_while_running
    # By name: the folder may be shared with what is not ours.
    for folder in warehouse jobs airflow logs previous spark-warehouse run; do
        rm -rf "${home:?}/$folder"
    done
fi
rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
    build dist spark-warehouse metastore_db derby.log
find . -path ./.venv -prune -o -path ./.git -prune -o -type d -name __pycache__ -print0 |
    xargs -0 --no-run-if-empty rm -rf
echo "clean: removed caches and what running left under $home; kept .venv and $home/jars"
echo "clean: to remove everything: rm -rf .venv $home"
