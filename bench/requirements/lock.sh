#!/usr/bin/env bash
# Writes the locks of the peers' environments from the .in files beside it: versions and hashes,
# no address of an index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

lock() {
    .venv/bin/uv pip compile "bench/requirements/$1.in" --quiet --python-version "$2" \
        --generate-hashes --no-emit-index-url --custom-compile-command bench/requirements/lock.sh \
        --output-file "bench/requirements/$1.lock"
    if grep -nE 'https?://|@ file:' "bench/requirements/$1.lock"; then
        echo "error: the lock holds an address (above)" >&2
        exit 1
    fi
}

lock cp-sat 3.11
lock meta 3.12
