"""Settings from environment variables, with defaults: where tables are and how Spark runs.

The defaults run everything on one machine. The same code uses an object store or a Spark cluster
if these variables say so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ballast.contracts.errors import InvalidInput, SettingsError

JOB_NAME_PATTERN = r"[a-z][a-z0-9_]{0,62}"
MEMORY_PATTERN = r"[1-9][0-9]*[kmgKMG]"
_CORES, _HOST_AND_PORT = r"(\d+|\*)", r"[^\s:,/]+:\d+"
MASTER_PATTERN = (
    rf"local(\[{_CORES}(,\d+)?\])?|spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*|k8s://\S+|yarn"
)


@dataclass(frozen=True)
class Settings:
    """One field per environment variable ``BALLAST_<FIELD IN CAPITALS>``."""

    home: Path
    """Folder for everything except tables (default ``.ballast``). On a cluster the driver and every
    executor reach it under the same path."""
    warehouse: str
    """Root of the tables: a folder or an ``s3a://`` address (default ``<home>/warehouse``)."""
    policies: Path
    """Folder with one ``<job>.yaml`` per streaming job (default ``policies``)."""
    jars: Path
    """Folder with Delta's jars, filled by ``make setup`` (default ``<home>/jars``)."""
    spark_master: str
    """Spark master URL of the streaming job and of the pipeline's jobs (default ``local[2]``)."""
    driver_memory: str
    """Memory of the driver of a pipeline job (default ``1g``)."""
    schedules: bool
    """Whether runs start by the policies' schedules (``on``, the default) or by people only."""

    def is_local_spark(self) -> bool:
        """Whether Spark runs in one process and not on a cluster."""
        return self.spark_master.startswith("local")

    def table_uri(self, table: str) -> str:
        """Address of a table named ``<schema>.<table>``."""
        schema, _, name = table.partition(".")
        return f"{self.warehouse.rstrip('/')}/{schema}/{name}"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of an environment; by default the process's own.

    Raises:
        SettingsError: a variable has a value that cannot be used.
    """
    env = os.environ if environment is None else environment
    home = _folder(env, "BALLAST_HOME", ".ballast")
    return Settings(
        home=home,
        warehouse=_warehouse(env.get("BALLAST_WAREHOUSE", str(home / "warehouse"))),
        policies=_folder(env, "BALLAST_POLICIES", "policies"),
        jars=_folder(env, "BALLAST_JARS", str(home / "jars")),
        spark_master=_matching(env, "BALLAST_SPARK_MASTER", "local[2]", MASTER_PATTERN),
        driver_memory=_matching(env, "BALLAST_DRIVER_MEMORY", "1g", MEMORY_PATTERN),
        schedules=_matching(env, "BALLAST_SCHEDULES", "on", "on|off") == "on",
    )


def check_job_name(job: str) -> str:
    """Return ``job``.

    Raises:
        InvalidInput: it is not a job name.
    """
    if not re.fullmatch(JOB_NAME_PATTERN, job):
        raise InvalidInput(
            f"job name {job!r} is not a job name",
            value=job,
            allowed="a small letter, then up to 62 small letters, digits or underscores",
            remedy="use the name of the policy file without .yaml",
        )
    return job


def _warehouse(value: str) -> str:
    if not value.strip():
        raise SettingsError(
            "BALLAST_WAREHOUSE is empty",
            value=value,
            allowed="a folder or an s3a:// address",
            remedy="unset it for the default, <BALLAST_HOME>/warehouse",
        )
    return value if "://" in value else str(Path(value).absolute())


def _folder(env: Mapping[str, str], name: str, default: str) -> Path:
    """A folder of a file system; an address such as ``s3a://...`` would become a local folder."""
    value = env.get(name, default)
    if not value.strip() or "://" in value:
        raise SettingsError(
            f"{name} is {value!r}, which is no folder",
            value=value,
            allowed="a folder; only BALLAST_WAREHOUSE may be an address on an object store",
            remedy=f"unset it for the default, {default}; on a cluster use a folder on a shared "
            "file system that the driver and every executor reach under the same path",
        )
    return Path(value).absolute()


def _matching(env: Mapping[str, str], name: str, default: str, pattern: str) -> str:
    value = env.get(name, default)
    if not re.fullmatch(pattern, value):
        raise SettingsError(
            f"{name} is {value!r}",
            value=value,
            allowed=f"text matching {pattern}",
            remedy=f"unset it for the default, {default}",
        )
    return value
