"""``ballast plans promises``: prints what versions promised and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ballast.cli.interval_chart import LEGEND, axis_line, chart_width, interval_line, scale_end
from ballast.cli.render import HEAD, measured_cell, print_json, styled, text_table
from ballast.cli.terminal import output_terminal, print_parts
from ballast.contracts.figure_text import PROMISED_SHARE_PCT
from ballast.readmodel.job_history import LOAD_DISTANCE, JobHistory
from ballast.readmodel.plans import VersionSummary, version_summaries
from ballast.readmodel.promises import PromiseCounts, PromisedFigure, promise_counts

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_promises(history: JobHistory, limit: int, *, as_json: bool) -> int:
    """Print the promised and the measured load distance of the newest versions.

    Args:
        history: the job.
        limit: how many versions to print at most.
        as_json: print JSON and not text.

    Returns:
        The exit code.
    """
    versions = [row for row in version_summaries(history) if row.load_distance][-limit:]
    counts = promise_counts(history)
    if as_json:
        print_json(_fields(versions, counts))
    elif versions:
        print_parts(*_parts(history.job, versions, counts))
    else:
        print_parts(
            f"job {history.job} has no version yet; trigger reoptimize__{history.job} in Airflow"
        )
    return 0


def _fields(versions: Sequence[VersionSummary], counts: PromiseCounts) -> dict[str, Any]:
    return {
        "figure": LOAD_DISTANCE,
        "promised_inside_pct": PROMISED_SHARE_PCT,
        "inside": counts.inside,
        "below": counts.below,
        "above": counts.above,
        "versions": [
            {
                "version": row.version,
                "plan_id": row.event.plan_id,
                **promise_fields(row.load_distance),
            }
            for row in versions
        ],
    }


def promise_fields(figure: PromisedFigure | None) -> dict[str, Any]:
    """Return the promised and the measured values of a figure, for JSON."""
    names = ("expected", "low", "high", "measured", "side", "last_measured", "last_side", "reason")
    return {name: getattr(figure, name, None) for name in names}


def _parts(
    job: str, versions: Sequence[VersionSummary], counts: PromiseCounts
) -> list[RenderableType]:
    figures = [row.load_distance for row in versions if row.load_distance]
    end, width = scale_end(figures), chart_width(output_terminal())
    headers = ("version", axis_line(end, "%", width), "promised", "measured")
    rows = [
        [
            row.version,
            styled(interval_line(figure, end, width), "", is_picture=True),
            figure.promised_text,
            measured_cell(figure.measured_text),
        ]
        for row, figure in zip(versions, figures, strict=True)
    ]
    return [
        styled(f"Load distance of job {job}: promised, and first measured after take-up", HEAD),
        text_table(headers, rows),
        LEGEND,
        f"{counts.text}.",
        *_reasons(versions),
    ]


def _reasons(versions: Sequence[VersionSummary]) -> list[str]:
    """Return why versions have no interval, a line for each reason."""
    found: dict[str, list[str]] = {}
    for row in versions:
        if row.load_distance and row.load_distance.reason:
            found.setdefault(row.load_distance.reason, []).append(str(row.version))
    return [
        f"No interval for version{'s' if len(names) > 1 else ''} {', '.join(names)}: {reason}."
        for reason, names in found.items()
    ]
