"""Runs a suite on a Spark frame with Great Expectations and reports the failures.

Importing this module imports Great Expectations, which takes seconds: import it in a function, or
in a thread while Spark starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

# Set before the import, which may read it: nothing is sent anywhere.
os.environ["GX_ANALYTICS_ENABLED"] = "False"

import great_expectations as gx
import great_expectations.expectations as gxe
from pyspark.sql import DataFrame

from expectations.suites import Expectation, Suite

MOST_FAILURES_SHOWN = 8


@dataclass(frozen=True)
class Failure:
    """An expectation that does not hold."""

    expectation: Expectation
    count: int | None
    """Number of bad rows; None if the expectation is not about single rows."""

    @property
    def column(self) -> str | None:
        """The column or columns of the expectation."""
        return self.expectation.column

    def __str__(self) -> str:
        rows = "" if self.count is None else f" ({self.count} row{'s' * (self.count != 1)})"
        return f"{self.expectation.reason}{rows}"


@dataclass(frozen=True)
class ValidationReport:
    """The result of a suite."""

    suite: str
    failures: tuple[Failure, ...] = ()

    @property
    def success(self) -> bool:
        """Whether every expectation holds."""
        return not self.failures

    def __str__(self) -> str:
        if self.success:
            return f"{self.suite}: every expectation holds"
        shown = "; ".join(str(failure) for failure in self.failures[:MOST_FAILURES_SHOWN])
        more = len(self.failures) - MOST_FAILURES_SHOWN
        return f"{self.suite}: {shown}" + (f"; and {more} more" if more > 0 else "")


def validate(frame: DataFrame, suite: Suite, *, count: bool = True) -> ValidationReport:
    """Check a frame.

    Args:
        frame: The rows.
        suite: The expectations.
        count: Count the bad rows of each failure, which takes two Spark jobs for each.
    """
    batch = _definition().get_batch(batch_parameters={"dataframe": frame})
    failed = _failed(batch, suite.expectations, "BOOLEAN_ONLY")
    if failed and count:
        failed = _failed(batch, [expectation for expectation, _ in failed], "BASIC")
    return ValidationReport(
        suite.name,
        tuple(Failure(expectation, _unexpected_count(result)) for expectation, result in failed),
    )


@cache
def _definition() -> Any:
    """Return a batch definition in an ephemeral context, which writes no file."""
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    # The caller persists the frame, because Great Expectations never unpersists it.
    source = context.data_sources.add_spark(name="frames", persist=False)
    asset = source.add_dataframe_asset(name="frame")
    return asset.add_batch_definition_whole_dataframe("frame")


def _failed(
    batch: Any, expectations: Iterable[Expectation], result_format: str
) -> list[tuple[Expectation, Any]]:
    """Return the failed expectations with their results, in the suite's order.

    Great Expectations changes the order, so each expectation has its position in ``meta``. An
    expectation that could not be evaluated (for instance for a missing column) counts as failed.
    """
    expected = list(expectations)
    suite = gx.ExpectationSuite(name="suite")
    for place, expectation in enumerate(expected):
        make = getattr(gxe, expectation.kind)
        suite.add_expectation(make(**expectation.arguments, meta={"place": place}))
    results = {
        result.expectation_config.meta["place"]: result
        for result in batch.validate(suite, result_format=result_format).results
    }
    return [
        (expectation, results[place])
        for place, expectation in enumerate(expected)
        if not results[place].success
    ]


def _unexpected_count(result: Any) -> int | None:
    count = (result.result or {}).get("unexpected_count")
    return None if count is None else int(count)
