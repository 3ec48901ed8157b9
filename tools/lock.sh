#!/usr/bin/env bash
# Writes requirements.lock from pyproject.toml, and tools/bootstrap.lock from it.
# Both hold versions and hashes and no address of an index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.venv/bin/uv
if [[ ! -x "$uv" ]]; then
    echo "error: no uv in .venv: run make setup first" >&2
    exit 1
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# Starting from the present lock keeps every version that still fits; UPGRADE=1 moves them.
if [[ -z "${UPGRADE:-}" && -f requirements.lock ]]; then
    cp requirements.lock "$work/requirements.lock"
fi
"$uv" pip compile pyproject.toml --quiet --all-extras --generate-hashes --no-emit-index-url \
    --python-version 3.11 --custom-compile-command "make lock" \
    --output-file "$work/requirements.lock"
{
    echo "# uv alone, for pip --require-hashes; the same pin as in requirements.lock. Written by make lock."
    awk '/^uv==/ {found = 1} found && /^    # via/ {exit} found' "$work/requirements.lock"
} >"$work/bootstrap.lock"
if ! grep -q '^uv==' "$work/bootstrap.lock"; then
    echo "error: uv is not among the locked packages: add it to the dev extra" >&2
    exit 1
fi
if grep -nE 'https?://|@ file:' "$work/requirements.lock"; then
    echo "error: the lock holds an address (above); nothing was changed" >&2
    exit 1
fi
mv "$work/requirements.lock" requirements.lock
mv "$work/bootstrap.lock" tools/bootstrap.lock
echo "lock: $(grep -c '^[a-zA-Z0-9].*==' requirements.lock) packages; run make setup to install them"
