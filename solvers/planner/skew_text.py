"""Local skew in words, for the reason of a plan and for the log of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from solvers.model.problem import Problem
from solvers.planner.local_loads import LocalLoadKind
from solvers.planner.local_skew import (
    EDGE,
    HeavyKeyGroup,
    LocalSkew,
    SkewFinding,
    SkewScope,
    SkewStatus,
)

SHOWN = 5
"""Operators and edges that a sentence names, the worst first."""


def skew_sentences(skew: LocalSkew) -> list[str]:
    """What is skewed, the worst first, without what follows from something named before."""
    named = _without_repetition(skew.skewed)
    more = len(named) - SHOWN
    return [finding_text(finding) for finding in named[:SHOWN]] + (
        [f"and {more} more operators and edges"] if more > 0 else []
    )


def finding_text(finding: SkewFinding) -> str:
    """Where most of an operator or edge is, and how much."""
    share, place = f"{finding.share_pct:.0f} %", finding.place
    records = f"of the records of edge {finding.name}"
    if finding.kind == EDGE:
        where = f"{share} {records} go between racks {place}"
    elif finding.kind == LocalLoadKind.OPERATOR:
        of_what = f"of its {finding.resource} load on {finding.scope} {place}"
        where = f"operator {finding.name} has {share} {of_what}"
    else:
        verb = "sends" if finding.kind == LocalLoadKind.SENT else "receives"
        where = f"{finding.scope} {place} {verb} {share} {records}"
    unavoidable = (
        f"; {finding.least_pct:.0f} % cannot be avoided" if finding.least_pct >= 1.0 else ""
    )
    noise = f"; noise alone may show {finding.noise_pct:.0f} %" if finding.noise_pct > 0 else ""
    above = f"{finding.above_pct:.0f} % above its fair share"
    return f"{where} ({above}{unavoidable}{noise})"


def change_text(before: Sequence[SkewFinding], after: LocalSkew) -> str:
    """How a plan changes the skew of operators and edges."""
    by_name = {(f.kind, f.name, f.scope, f.resource): f for f in after.findings}
    parts = []
    for finding in _without_repetition(before)[:SHOWN]:
        found = by_name.get((finding.kind, finding.name, finding.scope, finding.resource))
        if found is not None:
            parts.append(
                f"{_subject(finding)} from {finding.above_pct:.0f} to {found.above_pct:.0f} % "
                f"above the fair share of a {finding.scope}"
            )
    return ", ".join(parts)


def unknown_sentences(skew: LocalSkew) -> list[str]:
    """Operators of which nothing is known, and why."""
    return [
        f"nothing is said of operator {finding.name}: {finding.reason}"
        for finding in skew.of_status(SkewStatus.UNKNOWN)
    ]


def heavy_key_group_text(problem: Problem, heavy: HeavyKeyGroup, heaviest_key: str | None) -> str:
    """Why no placement levels the job, and what would."""
    operator = problem.operator_ids[heavy.key_group]
    others = f" (so have {heavy.others} other key groups)" if heavy.others else ""
    key = "its heaviest key" if heaviest_key is None else f"its heaviest key {heaviest_key!r}"
    return (
        f"key group {problem.key_group_ids[heavy.key_group]} alone has {heavy.of_mean_pct:.0f} % "
        f"of the mean {heavy.resource} load of a node{others}, so no placement can level the job; "
        f"to fix it: give operator {operator} more key groups, or split {key}"
    )


def progress_lines(skew: LocalSkew) -> list[str]:
    """How many operators and edges are level, and which are not or are not known."""
    by_node = [f for f in skew.findings if f.scope is SkewScope.NODE]
    counts: dict[SkewStatus, list[str]] = {status: [] for status in SkewStatus}
    for finding in by_node:
        subject = _subject(finding)
        if subject not in counts[finding.status]:
            counts[finding.status].append(subject)
    lines = [", ".join(_counted(counts))] if by_node else []
    if skew.edges_without_records:
        edges = ", ".join(skew.edges_without_records[:SHOWN])
        lines.append(f"no records were measured on edges {edges}")
    return lines


def _counted(counts: Mapping[SkewStatus, Sequence[str]]) -> Iterator[str]:
    """Numbers for what is level; names as well for everything else."""
    for status, subjects in counts.items():
        if status is SkewStatus.LEVEL:
            yield f"{len(subjects)} operators and edges level over nodes"
        elif subjects:
            more = f" and {len(subjects) - SHOWN} more" if len(subjects) > SHOWN else ""
            yield f"{len(subjects)} {status} ({', '.join(subjects[:SHOWN])}{more})"


def _subject(finding: SkewFinding) -> str:
    if finding.kind == LocalLoadKind.OPERATOR:
        return f"operator {finding.name}"
    if finding.kind == EDGE:
        return f"edge {finding.name}"
    return f"edge {finding.name} ({finding.kind})"


def _without_repetition(findings: Sequence[SkewFinding]) -> list[SkewFinding]:
    """Findings that do not follow from another one.

    An operator on one node is also on one rack, and sends and receives its records there.
    """
    on_node = {(f.kind, f.name, f.resource) for f in findings if f.scope is SkewScope.NODE}
    operators = {(f.name, f.scope, f.place) for f in findings if f.kind == LocalLoadKind.OPERATOR}
    return [
        finding
        for finding in findings
        if not (finding.scope is SkewScope.RACK and _key(finding) in on_node)
        and not _follows_from_operator(finding, operators)
    ]


def _key(finding: SkewFinding) -> tuple[str, str, str]:
    return finding.kind, finding.name, finding.resource


def _follows_from_operator(
    finding: SkewFinding, operators: Set[tuple[str, SkewScope, str]]
) -> bool:
    """Whether the records are where a skewed operator is."""
    if finding.load is None or finding.kind == LocalLoadKind.OPERATOR:
        return False
    return (finding.load.operator_id, finding.scope, finding.place) in operators
