"""A warehouse with real Delta tables of a small job with four versions."""

from __future__ import annotations

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.store.cache import TableCache
from bench.review_page.warehouse import SampleJob, job_policy, write_job

JOB = "clicks"
VERSIONS = 4


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    write_job(made, SampleJob(job_policy(JOB, 3, 20, 5), per_version=6), VERSIONS)
    return made


@pytest.fixture
def history(settings: Settings) -> JobHistory:
    return JobHistory(TableCache(settings), JOB)
