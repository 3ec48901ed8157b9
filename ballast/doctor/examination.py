"""All checks of a deployment, in the order in which they help: later ones need earlier ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ballast.contracts.errors import BallastError, SettingsError
from ballast.contracts.policy import policy_files
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings, load_settings
from ballast.doctor.clock import metrics_clock
from ballast.doctor.finding import CheckStatus, Finding, failed, not_checked, ok
from ballast.doctor.folders import (
    check_home,
    check_policies,
    check_shared_home,
    check_state_folders,
)
from ballast.doctor.tables import check_tables
from ballast.doctor.versions import check_jars, check_versions, installed_versions
from ballast.doctor.warehouse import check_warehouse
from ballast.store.tables import open_table, table_exists

NEEDS_SETTINGS = (
    "delta jars", "home", "state folders", "shared home", "policies", "warehouse",
    "atomic commit", "clock of the store", "tables", "clock of the metrics",
)  # fmt: skip


def examine(
    environment: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
    progress: Callable[[str], None] = lambda _text: None,
) -> list[Finding]:
    """Check this host and the deployment that its settings name.

    Args:
        environment: the variables; those of the process by default.
        clock: seconds since 1970 of this host.
        progress: told what is checked next.

    Returns:
        A finding for each check; nothing is raised.
    """
    progress("versions")
    installed = installed_versions(environment)
    findings = check_versions(installed)
    try:
        settings = load_settings(environment)
    except SettingsError as error:
        reason = "the settings are not valid"
        remedy = error.remedy or "correct the variable"
        return [
            *findings, failed("settings", str(error), remedy),
            *(not_checked(check, reason) for check in NEEDS_SETTINGS),
        ]  # fmt: skip
    is_local = settings.is_local_spark()
    findings += [
        ok("settings", f"home {settings.home}, warehouse {settings.warehouse}"),
        check_jars(settings.jars, has_spark=installed.pyspark is not None, is_local=is_local),
        check_home(settings.home),
        check_state_folders(settings.home),
        check_shared_home(settings.home, is_local_spark=is_local),
    ]
    progress("a race of writers on a scratch table of the warehouse")
    of_warehouse = check_warehouse(settings, clock)
    has_warehouse = of_warehouse[0].status is CheckStatus.OK
    planned = _jobs_with_plan(settings) if has_warehouse else set()
    findings += [check_policies(settings.policies, planned), *of_warehouse]
    if not has_warehouse:
        reason = f"the warehouse is not usable: {of_warehouse[0].seen}"
        return [*findings, *(not_checked(check, reason) for check in NEEDS_SETTINGS[-2:])]
    progress("the tables")
    now = datetime.fromtimestamp(clock(), UTC)
    jobs = sorted({file.stem for file in policy_files(settings.policies)})
    return [*findings, check_tables(settings), metrics_clock(settings, jobs, now)]


def is_usable(findings: list[Finding]) -> bool:
    """Whether no check has failed."""
    return all(finding.status is not CheckStatus.FAILED for finding in findings)


def _jobs_with_plan(settings: Settings) -> set[str]:
    """Jobs with a plan in force; none where that cannot be read, which other checks report."""
    try:
        if not table_exists(settings, Head.table):
            return set()
        return {str(part["job"]) for part in open_table(settings, Head.table).partitions()}
    except (BallastError, OSError):
        return set()
