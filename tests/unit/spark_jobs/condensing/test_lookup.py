"""What is known of a job before Spark starts, and the words for a job that says nothing."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import GateFailed
from ballast.contracts.settings import Settings
from spark_jobs.condensing.lookup import look_up
from spark_jobs.condensing.request import Request
from tests.support.policies import small_policy
from tests.support.snapshots import END


def test_a_job_without_metrics_is_told_what_to_do_and_not_where_the_warehouse_is(
    settings: Settings,
) -> None:
    with pytest.raises(GateFailed, match=r"has no metrics .* start the streaming job") as refused:
        look_up(settings, Request(small_policy("probe"), "run-1", END))
    assert settings.warehouse not in str(refused.value)
