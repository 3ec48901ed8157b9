"""Makes Markdown of the runs: time for the work, time to settle, weights, clusters, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ballast.streaming.region.frames import HEADER
from bench.common.markdown import table
from bench.common.verdict import Verdict, judged
from bench.weights.figures import SETTLED, SETTLED_S, Figures, by_method, mixed
from bench.weights.methods import METHODS, ORACLE, PAPER, PLAN_S, PLAN_WINDOW_S, ROUND_ROBIN
from bench.weights.run import CAP_S, RECEIVE_BUFFER, RECORD_BYTES, SEND_BUFFER, SHORTER, RegionRun
from bench.weights.settings import FULL_S, LARGE_S, SMALL_S, RegionSetting


def words(about: dict[str, Any], runs: Sequence[RegionRun]) -> str:
    cpu = sum(r.cpu_s for r in runs) / max(1, sum(r.merged for r in runs))
    return (
        f"Made by `make bench-weights` (`python -m bench.weights --docs`) at commit "
        f"{about['commit']}, {about['cores']} cores, Python {about['python']}, "
        f"{about['minutes']:.0f} minutes. Every region is real: a splitter, worker processes, "
        f"loopback TCP, an in-order merge. Records of {RECORD_BYTES + HEADER.size} bytes, socket "
        f"buffers of {SEND_BUFFER} (sending) and {RECEIVE_BUFFER} (receiving) bytes as asked of "
        f"the kernel, service by timer: {1000 * SMALL_S:.0f} ms a record without load, "
        f"{1000 * LARGE_S:.0f} ms with 32 workers and more. Splitter and merge took "
        f"{1e6 * cpu:.0f} us of CPU a record."
    )


def times(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> str:
    """A row for each setting: seconds for its work by method."""
    rows = []
    for setting in chosen:
        found = by_method(setting, runs)
        cells = [_seconds(found[method]) for method in METHODS]
        rows.append([f"{setting.name} ({setting.section})", f"{setting.records:,}", *cells])
    return table(["workers", "records", *METHODS], rows)


def _seconds(found: Figures) -> str:
    return f"{found.seconds:.1f}" if found.is_done else f"{found.seconds:.0f} *"


def ratios(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> str:
    """Times relative to round robin, and the printed figure."""
    rows = []
    for setting in chosen:
        found = by_method(setting, runs)
        base = found[ROUND_ROBIN].seconds
        cells = [f"{base / found[m].seconds:.2f}" for m in METHODS if m != ROUND_ROBIN]
        rows.append([f"{setting.name} ({setting.section})", setting.printed, *cells])
    return table(["workers", "printed", *(m for m in METHODS if m != ROUND_ROBIN)], rows)


def settling(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> str:
    """Seconds until settled, after the start and after the load was lifted."""
    shown = [m for m in METHODS if m not in (ROUND_ROBIN, ORACLE)]
    rows = []
    for setting in chosen:
        found = by_method(setting, runs)
        rows.append([setting.name, *(_settled(setting, found[m]) for m in (ORACLE, *shown))])
    return table(["workers", ORACLE, *shown], rows)


def _settled(setting: RegionSetting, found: Figures) -> str:
    texts = [_or_not(found.settled_s)]
    if setting.is_lifted:
        texts.append(_or_not(found.settled_again_s))
    return " / ".join(texts)


def _or_not(seconds: float | None) -> str:
    return "not" if seconds is None else f"{seconds:.0f}"


def ends(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> str:
    """Rate in % of the capacity, and points of share at the wrong workers, at the end of a run."""
    rows = []
    for setting in chosen:
        found = by_method(setting, runs)
        cells = [f"{100 * f.final_share:.0f} / {f.weights_off:.1f}" for f in found.values()]
        rows.append([setting.name, *cells])
    return table(["workers", *METHODS], rows)


def classes(setting: RegionSetting, runs: Sequence[RegionRun]) -> str:
    """Final weights of each class of workers, in units, beside their capacity."""
    found = by_method(setting, runs)
    total = float(setting.final_capacities.sum())
    rows = []
    for factor in sorted(set(setting.factors)):
        members = [j for j, f in enumerate(setting.factors) if f == factor]
        true = 1000 * float(setting.final_capacities[members[0]]) / total
        cells = [f"{1000 * float(found[m].weights[members].mean()):.2f}" for m in METHODS]
        rows.append([f"{len(members)} at {factor:g}x", f"{true:.2f}", *cells])
    return table(["class", "true units each", *METHODS], rows)


def page(
    about: str, chosen: Sequence[RegionSetting], runs: Sequence[RegionRun], found: Sequence[Verdict]
) -> str:
    """The whole report, below its title."""
    parts = [
        about,
        "## Seconds for the work",
        WORK,
        times(chosen, runs),
        "## Times round robin",
        RATIOS,
        ratios(chosen, runs),
        "## Seconds to settle",
        SETTLING,
        settling(chosen, runs),
        "## The end of the runs",
        ENDS,
        ends(chosen, runs),
    ]
    for setting in chosen:
        if len(set(setting.factors)) > 2 or setting.section == "6.5":
            parts += [f"## Final weights: {setting.name}", classes(setting, runs)]
            parts += _clusters(setting, runs)
    return "\n\n".join([*parts, "## Verdicts", judged(found)]) + "\n"


def _clusters(setting: RegionSetting, runs: Sequence[RegionRun]) -> list[str]:
    """The members of the paper's clusters at the end."""
    rounds = [
        r.clusters
        for found in runs
        if (found.setting, found.method) == (setting.name, PAPER)
        for r in found.rounds
        if r.clusters
    ]
    if setting.workers < 32 or not rounds:
        return []
    last = rounds[-1]
    text = (
        f"The paper's loop ends with {len(set(last))} clusters; {mixed(setting, last):.0f} % of "
        "the connections are in a cluster that also holds another class. Printed: more than three "
        "clusters, none of two classes, after about 220 s."
    )
    return [text]


WORK = (
    f"Until all records came out in order; a run's work is what its workers do in {FULL_S:.0f} s "
    "without load. Where half are slower, they are until an eighth of the work is done. "
    f"Methods that never change their weights did 1/{SHORTER} of the work, and their time is given "
    f"{SHORTER} times. *: cut off after {CAP_S:.0f} s; the time is that at the rate it had. The "
    "oracle knows the capacities and changes its weights in the moment in which the load is "
    "lifted; the static best is the one vector that is done first, by a model of the region."
)
RATIOS = (
    "Time of round robin over that of the method; printed by the paper: its loop's. The paper's "
    "records take up to a few milliseconds under load, here up to 2 s: a period of its loop, one "
    "second as in the paper, holds far fewer of them, which may be why it does not reach here what "
    "is printed for 32 and 64."
)
SETTLING = (
    f"Until {SETTLED_S} s in a row do {100 * SETTLED:.0f} % of what the workers can: after the "
    "start / after the load was lifted. 'not': not while it lasted. The loops act every second. "
    f"Plans come every {PLAN_S:.0f} s, from windows of {PLAN_WINDOW_S:.0f} s; where a pipeline "
    "plans every ten minutes, what takes one or two plans here takes ten or twenty minutes."
)
ENDS = (
    "Last quarter of a run: records a second in % of the capacity / points of share that are with "
    "the wrong worker."
)
