"""The page ``docs/methods.md``, and the table of ``ballast methods``, from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.contracts.methods import (
    MethodEntry,
    MethodLimit,
    MethodNeed,
    ParameterSpec,
    PlanningProblem,
    methods_of,
)

TITLES = {
    PlanningProblem.BALANCE: ("Balance", "`solver.method` where `objective.kind` is `balance`"),
    PlanningProblem.JOINT: (
        "Load and traffic together",
        "`solver.method` where `objective.kind` is `joint`",
    ),
    PlanningProblem.FIRST_PLACEMENT: ("First placement", "`solver.first_placement`"),
    PlanningProblem.KEY_ROUTING: ("Key routing", "`routing`"),
    PlanningProblem.SCALE: ("Number of nodes", "`scaling.method`"),
    PlanningProblem.WEIGHTS: ("Weights of an ordered region", "`regions[].method`"),
}
NEEDS = {
    MethodNeed.TRAFFIC: "traffic between operators",
    MethodNeed.SERIES: "loads over time",
    MethodNeed.CLUSTERS: "several clusters of nodes",
    MethodNeed.PARTITION_KEYS: "an edge between operators with the same partition key",
    MethodNeed.KEY_PAIRS: "counted pairs of keys",
    MethodNeed.SOURCES: "rates of the sources",
    MethodNeed.REGIONS: "an ordered region",
}
LIMITS = {
    MethodLimit.BUDGET: "knows no budget: the moves that are worth least are undone",
    MethodLimit.SEVERAL_RESOURCES: "levels one resource",
    MethodLimit.UNEQUAL_NODES: "assumes nodes of the same capacity",
    MethodLimit.SEVERAL_CLUSTERS: "sizes one cluster",
}
HEAD = """# Methods

Generated from the registry (`solvers/planner/registry.py`) by `ballast methods docs`; do not edit.

Every method is a line in a policy: its name, and its parameters in `solver.params`. `ballast policy
check` refuses a method that does not fit the job, and unknown parameters. Every plan is verified by
the same code, whatever made it. How the methods work: [solvers.md](solvers.md),
[solvers-collocate.md](solvers-collocate.md), [solvers-scale.md](solvers-scale.md).
"""


def methods_markdown() -> str:
    """The text of ``docs/methods.md``."""
    return HEAD + "".join(_section(problem) for problem in TITLES if methods_of(problem))


def needs_text(entry: MethodEntry) -> str:
    """What a method needs, in words; empty if it needs nothing more than loads and nodes."""
    return ", ".join(NEEDS[need] for need in entry.needs)


def limits_text(entry: MethodEntry) -> str:
    """What a method cannot do, in words; empty if it can do everything."""
    return ", ".join(LIMITS[limit] for limit in entry.cannot)


def _section(problem: PlanningProblem) -> str:
    title, field = TITLES[problem]
    found = methods_of(problem).values()
    rows = "".join(
        f"| `{entry.name}` | {entry.summary} | {_paper(entry)} | {needs_text(entry)} "
        f"| {limits_text(entry)} |\n"
        for entry in found
    )
    head = "| method | what it does | from | needs | limits |\n|---|---|---|---|---|\n"
    return f"\n## {title}\n\nIn a policy: {field}.\n\n{head}{rows}{_parameters(list(found))}"


def _paper(entry: MethodEntry) -> str:
    return f"[{entry.paper}]" if entry.paper else "Ballast"


def _parameters(found: list[MethodEntry]) -> str:
    rows = "".join(f"{row}\n" for entry in found for row in _parameter_rows(entry))
    head = "| method | parameter | meaning | allowed | default |\n|---|---|---|---|---|\n"
    return f"\n{head}{rows}" if rows else ""


def _parameter_rows(entry: MethodEntry) -> Iterator[str]:
    for spec in entry.parameters:
        yield (
            f"| `{entry.name}` | `{spec.name}` | {spec.text} | {spec.allowed} | {_default(spec)} |"
        )


def _default(spec: ParameterSpec) -> str:
    value = spec.default
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
