"""Checks of folders: home, the state of jobs, and policies."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import uuid
from collections.abc import Collection
from pathlib import Path

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import load_policy, policy_files
from ballast.doctor.finding import Finding, failed, not_checked, ok, warning

HOSTS = "doctor-hosts"
"""Folder in the home with a file for each host that has run these checks."""
SHOWN = 3


def check_home(home: Path) -> Finding:
    """Check that this process can create, lock, read and remove a file in the home."""
    remedy = f"make {home} writable for the user that runs Ballast, or set BALLAST_HOME"
    if not home.exists():
        parent = next(each for each in home.parents if each.exists())
        if not os.access(parent, os.W_OK | os.X_OK, effective_ids=True):
            return failed("home", f"{home} is not there, and {parent} is not writable", remedy)
        return warning("home", f"{home} is not there yet", "the first start of a job makes it")
    path = home / f"doctor-{uuid.uuid4().hex}"
    try:
        _write_locked(path)
    except OSError as error:
        return failed("home", f"no file can be written in {home}: {_cause(error)}", remedy)
    finally:
        _remove(path)
    return ok("home", f"{home}: a file was created, locked, read and removed")


def check_state_folders(home: Path) -> Finding:
    """Check that the state folder of each job is the one that its last start used (ADR 80)."""
    records = sorted(home.glob("jobs/*/decisions/state-token.json"))
    if not records:
        return not_checked("state folders", f"no job has run with {home}")
    wrong = [record for record in records if not _token_file(record).is_file()]
    if wrong:
        names = ", ".join(str(_token_file(record).parent) for record in wrong[:SHOWN])
        return failed(
            "state folders",
            f"{len(wrong)} of {len(records)} folders are not those that their jobs used last: "
            f"{names}",
            "mount or restore the folder together with its job's folder, before the job starts",
        )
    return ok("state folders", f"{len(records)} jobs: the token of the last start is in each")


def check_shared_home(home: Path, host: str = "", *, is_local_spark: bool) -> Finding:
    """Check that other hosts of the cluster have the same home.

    Every host that runs this check leaves a file with its name in the home, and sees the others.

    Args:
        home: the home.
        host: the name of this host; asked for by default.
        is_local_spark: whether driver and tasks are one process, so that nothing is shared.
    """
    if is_local_spark:
        return not_checked("shared home", "Spark runs on this host alone")
    name = re.sub(r"[^\w.-]", "_", host or socket.gethostname())
    folder = home / HOSTS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        others = sorted(path.name for path in folder.iterdir() if path.name != name)
    except OSError as error:
        return failed(
            "shared home", f"{folder} cannot be written: {_cause(error)}",
            "put BALLAST_HOME on storage that all hosts of the cluster can write",
        )  # fmt: skip
    if others:
        return ok("shared home", f"hosts that see {home}: {', '.join([name, *others])}")
    return warning(
        "shared home", f"only this host, {name}, has run this check with {home}",
        "run `ballast doctor` on each worker: it must name the other hosts",
    )  # fmt: skip


def check_policies(folder: Path, known_jobs: Collection[str] = ()) -> Finding:
    """Check that the folder of policies is there, and that each policy is valid.

    Args:
        folder: the folder.
        known_jobs: jobs that have a plan in force.
    """
    if not folder.is_dir():
        return failed(
            "policies", f"{folder} is no folder",
            "set BALLAST_POLICIES to the folder with one <job>.yaml for each streaming job",
        )  # fmt: skip
    files = policy_files(folder)
    problems = [problem for problem in map(_policy_problem, files) if problem]
    if problems:
        return failed(
            "policies", f"{len(problems)} of {len(files)} are not valid: {'; '.join(problems)}",
            "correct them; `ballast policy check FILE` checks one",
        )  # fmt: skip
    if not files:
        remedy = "write <job>.yaml: docs/deploy.md says how"
        return warning("policies", f"{folder} has no policy", remedy)
    missing = sorted(set(known_jobs) - {file.stem for file in files})
    if missing:
        return warning(
            "policies", f"{folder} has no policy of {', '.join(missing)}, with a plan in force",
            "put the policy back, or stop the job: without it no new plan is made",
        )  # fmt: skip
    return ok("policies", f"{len(files)} valid in {folder}")


def _write_locked(path: Path) -> None:
    """Write a file under a lock and read it back; jobs lock files in the same way."""
    text = path.name.encode()
    with open(path, "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if path.read_bytes() != text:
        raise OSError("the file does not have what was written")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the check has failed already, for the same reason


def _token_file(record: Path) -> Path:
    """The file that the last start of a job wrote into its state folder."""
    state = record.parent.parent / "state"
    try:
        return state / f"token-{json.loads(record.read_bytes())}"
    except (OSError, ValueError):
        return state / "token of an unreadable record"


def _policy_problem(file: Path) -> str:
    try:
        load_policy(file)
    except PolicyError as error:
        return str(error)
    return ""


def _cause(error: OSError) -> str:
    return error.strerror or str(error)
