"""Finds the Chromium that browser tests and screenshots use; installs Debian's where it may."""

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
    """The one that CHROMIUM names, or the first on the PATH."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def ensure_chromium() -> str | None:
    """The same, after trying to install it as root on Debian; None where it cannot be had."""
    found = find_chromium()
    if found or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", PACKAGE]
    for command in (["apt-get", "update", "--quiet"], install):
        subprocess.run(command, check=False, **quiet)  # type: ignore[call-overload]
    return find_chromium()
