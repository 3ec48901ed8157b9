#!/usr/bin/env bash
# Finds a Python that Ballast runs on (PYTHON=... may name it) and runs tools/setup.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null
}

if [[ -n "${PYTHON:-}" ]]; then
    candidates=("$PYTHON")
else
    # The environment's own Python first: a second set-up must not switch to another one.
    candidates=(.venv/bin/python python3.11 python3.12 python3)
fi
for candidate in "${candidates[@]}"; do
    if command -v "$candidate" >/dev/null && fits "$candidate"; then
        exec "$candidate" -B -m tools.setup
    fi
done
echo "error: no Python 3.11 or 3.12 found (tried: ${candidates[*]})." >&2
echo "Install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv)," >&2
echo "or name it: make setup PYTHON=/path/to/python3.11" >&2
exit 1
