"""Checks of the versions of Python, Java, Spark, Delta and Airflow that are installed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ballast.contracts.spark import DELTA_VERSION, JARS
from ballast.doctor.finding import Finding, failed, not_checked, ok, warning

PYTHONS = ((3, 11), (3, 12))
JAVAS = (17, 21)
AIRFLOW = (3, 3)
DELTA_RS = (1, 6)
"""Versions that are tested."""
JAVA_TIMEOUT_S = 30
NO_SPARK = "PySpark is not installed here; streaming jobs and the pipeline need it"


@dataclass(frozen=True)
class InstalledVersions:
    """What is installed here; None for what is not."""

    python: tuple[int, int]
    java: str | None
    """What ``java -version`` prints."""
    pyspark: str | None
    delta_spark: str | None
    deltalake: str | None
    airflow: str | None


def installed_versions(environment: Mapping[str, str] | None = None) -> InstalledVersions:
    """Ask packages and Java for their versions."""
    return InstalledVersions(
        python=(sys.version_info.major, sys.version_info.minor),
        java=_java_output(os.environ if environment is None else environment),
        pyspark=_version_of("pyspark"),
        delta_spark=_version_of("delta-spark"),
        deltalake=_version_of("deltalake"),
        airflow=_version_of("apache-airflow-core") or _version_of("apache-airflow"),
    )


def check_versions(installed: InstalledVersions) -> list[Finding]:
    """Check that the versions fit Ballast and each other."""
    return [
        check_python(installed.python),
        check_java(installed.java, has_spark=installed.pyspark is not None),
        check_spark(installed.pyspark, installed.delta_spark),
        check_delta_rs(installed.deltalake),
        check_airflow(installed.airflow),
    ]


def check_python(version: tuple[int, int]) -> Finding:
    """Check the version of Python."""
    seen, allowed = f"Python {_dotted(version)}", " or ".join(map(_dotted, PYTHONS))
    if version in PYTHONS:
        return ok("python", seen)
    return failed("python", f"{seen}; {allowed} is needed", f"run Ballast on Python {allowed}")


def check_java(output: str | None, *, has_spark: bool) -> Finding:
    """Check the version of Java by what ``java -version`` prints; None if there is no Java."""
    if not has_spark:
        return not_checked("java", NO_SPARK)
    allowed = " or ".join(map(str, JAVAS))
    remedy = f"install Java {allowed}, and set JAVA_HOME to it"
    if output is None:
        return failed("java", "no Java in JAVA_HOME or on the PATH", remedy)
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    first = output.strip().splitlines()[0] if output.strip() else "nothing"
    if found is None:
        return failed("java", f"java -version printed {first!r}", remedy)
    if int(found[1]) in JAVAS:
        return ok("java", f"Java {found[1]}")
    return failed("java", f"Java {found[1]}; Spark needs {allowed}", remedy)


def check_spark(pyspark: str | None, delta_spark: str | None) -> Finding:
    """Check that PySpark and delta-spark fit each other and Delta's jars."""
    if pyspark is None:
        return not_checked("spark and delta", NO_SPARK)
    line = _spark_of_jars()
    remedy = f"install pyspark {line}.* and delta-spark {DELTA_VERSION} (ballast[streaming])"
    if delta_spark is None:
        return failed("spark and delta", f"PySpark {pyspark} without delta-spark", remedy)
    seen = f"PySpark {pyspark}, delta-spark {delta_spark}, jars {', '.join(JARS)}"
    if not pyspark.startswith(f"{line}."):
        return failed("spark and delta", f"{seen}: the jars are for Spark {line}", remedy)
    if delta_spark != DELTA_VERSION:
        wrong = f"{seen}: package and jars are of different versions"
        return failed("spark and delta", wrong, remedy)
    return ok("spark and delta", seen)


def check_delta_rs(version: str | None) -> Finding:
    """Check the version of deltalake, which reads and writes the tables without Spark."""
    return _tested("deltalake", "deltalake", version, DELTA_RS, "pip install 'ballast'")


def check_airflow(version: str | None) -> Finding:
    """Check the version of Airflow."""
    if version is None:
        return not_checked("airflow", "Airflow is not installed here; only its own hosts need it")
    return _tested("airflow", "Airflow", version, AIRFLOW, "install apache-airflow 3.3.*")


def check_jars(folder: Path, *, has_spark: bool, is_local: bool) -> Finding:
    """Check that Delta's jars are in their folder."""
    if not has_spark:
        return not_checked("delta jars", NO_SPARK)
    missing = [jar for jar in JARS if not (folder / jar).is_file()]
    if not missing:
        return ok("delta jars", f"{len(JARS)} jars in {folder}")
    seen = f"{', '.join(missing)} not in {folder}"
    if is_local:
        remedy = "run `make setup`, or set BALLAST_JARS to the folder that has them"
        return failed("delta jars", seen, remedy)
    return not_checked("delta jars", f"{seen}; on a cluster Spark's own installation has them")


def _tested(
    check: str, name: str, version: str | None, tested: tuple[int, int], remedy: str
) -> Finding:
    if version is None:
        return failed(check, f"{name} is not installed", remedy)
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    seen = f"{name} {version}"
    if found == tested:
        return ok(check, seen)
    if found < tested:
        return failed(check, f"{seen}; {_dotted(tested)} or later is needed", remedy)
    said = f"{seen} is newer than {_dotted(tested)}, which is tested"
    return warning(check, said, f"if something fails: {remedy}")


def _spark_of_jars() -> str:
    """The version of Spark that Delta's jars are for, by their names."""
    found = re.search(r"delta-spark_(\d+\.\d+)_", JARS[0])
    return found[1] if found else ""


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _java_output(env: Mapping[str, str]) -> str | None:
    home = env.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, check=False,
            timeout=JAVA_TIMEOUT_S, env=dict(env),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr or done.stdout
