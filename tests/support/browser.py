"""The Chromium of browser tests; installed as root on Debian if it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess

from tools.browser import find_chromium

PACKAGE = "chromium"
ADVICE = f"install it (Debian, Ubuntu: apt-get install {PACKAGE}), or name one with CHROMIUM=..."


def ensure_chromium() -> str | None:
    """Find a Chromium as ``find_chromium`` does; install it if it is missing and this is root on
    Debian."""
    found = find_chromium()
    if found or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", PACKAGE]
    for command in (["apt-get", "update", "--quiet"], install):
        subprocess.run(command, check=False, **quiet)  # type: ignore[call-overload]
    return find_chromium()
