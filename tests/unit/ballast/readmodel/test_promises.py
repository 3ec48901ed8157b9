"""Promised and measured figures of a job whose first versions are of an earlier Ballast."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from ballast.contracts.figure_text import EARLIER_VERSION, NOT_PROMISED
from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.job_history import LOAD_DISTANCE, JobHistory
from ballast.readmodel.placement import node_loads
from ballast.readmodel.plans import plan_detail, version_summaries
from ballast.readmodel.promises import PromisedFigure, promise_counts
from ballast.store.cache import TableCache
from ballast.store.plans import read_promises
from ballast.store.tables import append, read_rows
from bench.review_page.promises import OLD_VERSIONS, TREND_REASON, TREND_VERSION
from bench.review_page.warehouse import SampleJob, ids_of, job_policy, write_job

JOB = "clicks"
VERSIONS = 8
ABOVE = 7


@pytest.fixture(scope="module")
def promising(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("promises")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    world = SampleJob(job_policy(JOB, 2, 10, 3), per_version=4, has_promises=True)
    write_job(made, world, VERSIONS)
    return made


@pytest.fixture
def copy(promising: Settings, tmp_path: Path) -> Settings:
    """A copy of the warehouse, for a test that changes it."""
    shutil.copytree(promising.home, tmp_path / "home")
    return load_settings({"BALLAST_HOME": str(tmp_path / "home")})


def load_distances(settings: Settings) -> dict[int, PromisedFigure]:
    history = JobHistory(TableCache(settings), JOB)
    found = {row.version: row.load_distance for row in version_summaries(history)}
    return {version: figure for version, figure in found.items() if figure is not None}


def test_a_version_has_the_interval_that_its_plan_promised_and_the_side_of_what_was_measured(
    promising: Settings,
) -> None:
    found = load_distances(promising)
    for version, figure in found.items():
        promises = {
            row.figure: row for row in read_promises(promising, JOB, ids_of(JOB, version)[2])
        }
        if version <= OLD_VERSIONS:
            assert promises == {}
            assert (figure.low, figure.side, figure.reason) == (None, None, EARLIER_VERSION)
            continue
        promise = promises[LOAD_DISTANCE]
        assert (figure.expected, figure.low) == (promise.expected, promise.low)
        if version == TREND_VERSION:
            assert (figure.side, figure.reason) == (None, TREND_REASON)
        else:
            assert figure.side == ("above" if version == ABOVE else "inside")
            assert figure.reason == ""


def test_the_share_inside_counts_the_first_measurement_of_each_version(
    copy: Settings,
) -> None:
    counts = promise_counts(JobHistory(TableCache(copy), JOB))
    with_interval = VERSIONS - OLD_VERSIONS - 1
    assert (counts.inside, counts.below, counts.above) == (with_interval - 1, 0, 1)
    again = read_rows(copy, "plans.outcomes", job=JOB, where=[("version", "=", 5)]).to_pylist()
    later = {"run_id": "later", "measured": 99.0, "side": "above"}
    append(copy, "plans.outcomes", [
        row | later | {"measured_at": row["measured_at"] + timedelta(hours=9)}
        for row in again if row["figure"] == LOAD_DISTANCE
    ])  # fmt: skip
    assert promise_counts(JobHistory(TableCache(copy), JOB)) == counts
    figure = load_distances(copy)[5]
    assert figure.side == "inside"
    assert (figure.last_measured, figure.last_side) == (99.0, "above")
    assert figure.last_measured_text is not None
    assert figure.last_measured_text.endswith("(above)")


def test_the_figures_of_a_plan_are_what_it_promises_and_what_was_measured(
    promising: Settings,
) -> None:
    figures = plan_detail(JobHistory(TableCache(promising), JOB), "5").figures
    by_name = {figure.figure: figure for figure in figures}
    assert figures[0].figure == LOAD_DISTANCE
    assert [name for name in by_name if "/" in name] == list(by_name)[-3:]
    assert by_name["pause_s"].side == "inside"
    # Measured and not promised with an interval, by a plan that gives intervals.
    assert (by_name["bytes"].low, by_name["bytes"].reason) == (None, "")
    of_node = by_name["cpu_load_cores/node-00"]
    assert of_node.measured_text is None
    assert "cores (" in str(of_node.promised_text)


def test_a_plan_whose_promises_are_gone_says_that_it_has_no_interval(copy: Settings) -> None:
    rows = read_rows(copy, "plans.plans", job=JOB).to_pylist()
    (newest,) = [row for row in rows if row["plan_id"] == ids_of(JOB, VERSIONS)[2]]
    append(copy, "plans.plans", [newest | {"plan_id": "f" * 16}])
    detail = plan_detail(JobHistory(TableCache(copy), JOB), "f" * 16)
    assert [(figure.figure, figure.reason) for figure in detail.figures] == [
        (LOAD_DISTANCE, NOT_PROMISED)
    ]


def test_the_reason_of_a_plan_has_the_promised_interval(promising: Settings) -> None:
    detail = plan_detail(JobHistory(TableCache(promising), JOB), "5")
    assert detail.figures[0].promised_text in detail.reason
    old = plan_detail(JobHistory(TableCache(promising), JOB), "1")
    assert f"by {old.plan.load_distance_pct:.2f} % with the plan" in old.reason


def test_a_node_has_the_promised_load_in_percent_of_its_capacity(promising: Settings) -> None:
    history = JobHistory(TableCache(promising), JOB)
    promises = {row.figure: row for row in read_promises(promising, JOB, ids_of(JOB, 5)[2])}
    for node in node_loads(history, "5").resources[0].nodes:
        promise = promises[f"cpu_load_cores/{node.node_id}"]
        assert node.promised == pytest.approx(100 * promise.expected)
        assert (node.low, node.high) == pytest.approx((100 * promise.low, 100 * promise.high))
        assert node.side in ("inside", "below", "above")
        assert str(node.measured_text).endswith(f"({node.side})")
    for node in node_loads(history, "1").resources[0].nodes:
        assert (node.low, node.high, node.side) == (None, None, None)
