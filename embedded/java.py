"""Finds the Java that Spark uses, and checks whether Spark can run on it.

It needs only the standard library, because set-up calls it before any package is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SUPPORTED_MAJORS = (17, 21)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


def java_command(env: Mapping[str, str] | None = None) -> str | None:
    """Path of the ``java`` that Spark's scripts use: ``JAVA_HOME`` first, then ``PATH``."""
    env = os.environ if env is None else env
    home = env.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        return str(command) if os.access(command, os.X_OK) else None
    return shutil.which("java", path=env.get("PATH"))


def major_version(version_text: str) -> int | None:
    """Major version in the output of ``java -version`` (``1.8`` is 8)."""
    found = _VERSION.search(version_text)
    if found is None:
        return None
    first = int(found.group(1))
    return int(found.group(2) or 0) if first == 1 else first


def java_problem(env: Mapping[str, str] | None = None) -> str | None:
    """One line on why Spark cannot run on this Java, or ``None`` if it can."""
    env = os.environ if env is None else env
    command = java_command(env)
    if command is None:
        return _missing(env)
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command} does not run: {error}"
    major = major_version(answer.stderr + answer.stdout)
    if major not in SUPPORTED_MAJORS:
        return f"{command} is Java {major or 'of unknown version'}; Spark needs 17 or 21"
    return None


def _missing(env: Mapping[str, str]) -> str:
    if env.get("JAVA_HOME"):
        return f"JAVA_HOME is {env['JAVA_HOME']}, but there is no bin/java to run in it"
    return "no Java on the PATH and JAVA_HOME is not set; Spark needs Java 17 or 21"
