"""Finds the Chromium for browser tests and screenshots; installs Debian's as root."""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGE = "chromium"
ADVICE = f"install it (Debian, Ubuntu: apt-get install {PACKAGE}), or name one with CHROMIUM=..."
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """The Chromium that CHROMIUM names, or the first on the PATH, or None."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def ensure_chromium() -> str | None:
    """As ``find_chromium``, but tries to install it if it is missing and this is root on Debian."""
    found = find_chromium()
    if found or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", PACKAGE]
    for command in (["apt-get", "update", "--quiet"], install):
        subprocess.run(command, check=False, **quiet)  # type: ignore[call-overload]
    return find_chromium()
