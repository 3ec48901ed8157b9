#!/usr/bin/env bash
# Fetches the charting library from npm and writes vendor.lock: tools/vendor.sh [VERSION].
# Only a change of the version needs npm; the files are in the repository (ADR 43).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../plugins/review/web/vendor"

version="${1:-$(awk '$1 == "package" {print $3}' vendor.lock)}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "uplot@$version" >/dev/null
archive="$work/uplot-$version.tgz"
integrity="sha512-$(openssl dgst -sha512 -binary "$archive" | base64 -w0)"
if [[ "$integrity" != "$(npm view --silent "uplot@$version" dist.integrity)" ]]; then
    echo "error: the archive of uplot $version is not the one that npm names; nothing was changed" >&2
    exit 1
fi
tar -xzf "$archive" -C "$work"
cp "$work/package/dist/uPlot.iife.min.js" "$work/package/dist/uPlot.min.css" .
cp "$work/package/LICENSE" LICENSE-uPlot.txt
{
    echo "# Files of npm packages that are kept here as published; written by tools/vendor.sh, which says how"
    echo "# to move a version. package version integrity, then file sha256."
    echo "package uplot $version $integrity"
    for file in uPlot.iife.min.js uPlot.min.css LICENSE-uPlot.txt; do
        echo "file $file $(sha256sum "$file" | cut -d' ' -f1)"
    done
} >vendor.lock
echo "vendor: uplot $version"
