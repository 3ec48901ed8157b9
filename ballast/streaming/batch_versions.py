"""Durable record of the plan version of each batch, and of the content of each version.

"Batch b uses version v" is on disk before the batch changes anything, and a replay of b uses v
again, even if the head has changed ([MW16-LOCALITY, 3.4]: the configuration is on stable storage
before the reconfiguration starts).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ballast.contracts.errors import InvalidInput
from ballast.streaming.atomic_files import read_json, write_json
from ballast.streaming.operators import Topology
from ballast.streaming.routing import Placement, PlacementName
from ballast.streaming.take_up_steps import ScheduledStep

KEEP_DECISIONS = 20
NAMED_FILE = re.compile(r"(?P<kind>placement|moved|steps)-(?P<version>\d+)(-step-(?P<step>\d+))?")


@dataclass(frozen=True)
class VersionDecision:
    """Batch ``batch_id`` runs under ``version``, the batch before under ``previous_version``.

    A take-up in steps is several decisions for one version, each with the step that it makes.
    """

    batch_id: int
    version: int
    previous_version: int
    step: int | None = None
    """The step that this batch makes or runs after; None: the last one, or a take-up at once."""
    previous_step: int | None = None
    steps: int = 1
    """Steps of the take-up of ``version``."""

    @property
    def placement(self) -> PlacementName:
        """The placement of this batch."""
        return (self.version, self.step)

    @property
    def previous_placement(self) -> PlacementName:
        """The placement of the batch before."""
        return (self.previous_version, self.previous_step)

    @property
    def takes_up(self) -> bool:
        """Whether this batch takes its version up, or makes a step of it."""
        return self.placement != self.previous_placement

    def followed_by(self, version: int, step: int | None, steps: int) -> VersionDecision:
        """The decision of the next batch for a placement."""
        return VersionDecision(self.batch_id + 1, version, self.version, step, self.step, steps)

    def kept(self) -> VersionDecision:
        """The decision of the next batch to stay with the same placement."""
        return self.followed_by(self.version, self.step, self.steps)

    @property
    def begins(self) -> bool:
        """Whether this batch is the first one of its version."""
        return self.version != self.previous_version

    @property
    def number(self) -> int:
        """The number of the step that this batch makes, from 1."""
        return self.steps if self.step is None else self.step

    @property
    def fault_label(self) -> str:
        """The version, and the step if there are several: names the fault points of the batch."""
        return str(self.version) if self.steps == 1 else f"{self.version}.{self.number}"


@dataclass(frozen=True)
class MoveFigures:
    """What the take-up of a version moved and how long it paused, measured while copying."""

    moved_key_groups: int
    bytes_moved: int
    pause_ms: float
    moved_keys: int = 0
    """Keys with state that changed their key group."""
    longest_pause_ms: float = 0.0
    """The pause of the longest step."""


def total_of(steps: Sequence[MoveFigures]) -> MoveFigures:
    """What several steps moved together."""
    return MoveFigures(
        sum(step.moved_key_groups for step in steps),
        sum(step.bytes_moved for step in steps),
        sum(step.pause_ms for step in steps),
        sum(step.moved_keys for step in steps),
        max((step.longest_pause_ms for step in steps), default=0.0),
    )


class DecisionLog:
    """Decisions by batch; placements, steps and move figures by version; each in its own file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def of_batch(self, batch_id: int) -> VersionDecision | None:
        """The decision of a batch, or None."""
        found = read_json(self._batch(batch_id))
        return None if found is None else VersionDecision(**found)

    def latest(self) -> VersionDecision | None:
        """The decision of the newest batch, or None before the first."""
        names = sorted(path.stem for path in self.folder.glob("batch-*.json"))
        return self.of_batch(int(names[-1].removeprefix("batch-"))) if names else None

    def record(self, decision: VersionDecision) -> None:
        """Makes a decision durable and removes one that no replay needs any more."""
        write_json(self._batch(decision.batch_id), asdict(decision))
        self._batch(decision.batch_id - KEEP_DECISIONS).unlink(missing_ok=True)

    def placement(self, name: PlacementName) -> Placement | None:
        """The content of a version or of a step of it, or None if it was not recorded."""
        found = read_json(self._named("placement", name))
        if found is None:
            return None
        nodes = {operator: tuple(names) for operator, names in found["nodes"].items()}
        # Placements of earlier versions lack routes, scaling, weights or splits.
        scaling = tuple((s[0], s[1], s[2], s[3]) for s in found.get("scaling", []))
        weights = tuple((w[0], w[1], w[2]) for w in found.get("weights", []))
        splits = {
            operator: {key: tuple(groups) for key, groups in keys.items()}
            for operator, keys in found.get("splits", {}).items()
        }
        return Placement(
            found["version"], found["plan_id"], nodes, found.get("routes", {}), scaling, weights,
            splits, found.get("step"),
        )  # fmt: skip

    def record_placement(self, placement: Placement) -> None:
        """Makes a placement durable; called before a decision names it."""
        content = {
            "version": placement.version,
            "plan_id": placement.plan_id,
            "nodes": dict(placement.nodes),
            "routes": dict(placement.routes),
            "scaling": [list(row) for row in placement.scaling],
            "weights": [list(row) for row in placement.weights],
            "step": placement.step,
            "splits": {operator: dict(keys) for operator, keys in placement.splits.items()},
        }
        write_json(self._named("placement", placement.name), content)

    def steps(self, version: int) -> list[ScheduledStep]:
        """The steps of a version; empty if it was taken up at once."""
        found = read_json(self._named("steps", (version, None))) or []
        return [
            ScheduledStep(
                tuple((operator, group) for operator, group in step["key_groups"]), step["exceeds"]
            )
            for step in found
        ]

    def record_steps(self, version: int, steps: Sequence[ScheduledStep]) -> None:
        """Makes the steps of a version durable; called before a decision for the first of them."""
        content = [
            {"key_groups": [list(name) for name in step.key_groups], "exceeds": step.exceeds}
            for step in steps
        ]
        write_json(self._named("steps", (version, None)), content)

    def moved(self, name: PlacementName) -> MoveFigures | None:
        """Figures of the moves to a placement, or None if they have not been completed."""
        found = read_json(self._named("moved", name))
        return None if found is None else MoveFigures(**found)

    def moved_so_far(self, decision: VersionDecision) -> MoveFigures:
        """What the steps of a version moved together, up to the one that a decision makes."""
        names = [(decision.version, step) for step in range(1, decision.number)]
        found = [self.moved(name) for name in (*names, decision.placement)]
        return total_of([figures for figures in found if figures is not None])

    def record_moved(self, name: PlacementName, figures: MoveFigures) -> None:
        """Makes the figures of the first complete move durable; a replay does not change them."""
        write_json(self._named("moved", name), asdict(figures))

    def forget_placements(self, keep: Sequence[PlacementName]) -> None:
        """Removes placements but those in ``keep``, and what else is known of other versions.

        The figures of all steps of a version stay, because its last step adds them up.
        """
        versions = {version for version, _ in keep}
        for path in self.folder.glob("*.json"):
            found = NAMED_FILE.fullmatch(path.stem)
            if found is None:
                continue
            kind, version = found["kind"], int(found["version"])
            step = int(found["step"]) if found["step"] else None
            if version not in versions or (kind == "placement" and (version, step) not in keep):
                path.unlink(missing_ok=True)

    def check_continues(self, batch_id: int) -> None:
        """Checks that Spark's checkpoint and this folder belong together.

        Raises:
            InvalidInput: ``batch_id`` is neither the newest recorded batch nor the one after it.
        """
        latest = self.latest()
        expected = (0,) if latest is None else (latest.batch_id, latest.batch_id + 1)
        if batch_id not in expected:
            raise InvalidInput(
                f"the checkpoint continues with batch {batch_id}, but the decisions in "
                f"{self.folder} expect {' or '.join(map(str, expected))}",
                value=batch_id, allowed=" or ".join(map(str, expected)),
                remedy="restore checkpoint and state of one time, or remove both to start again",
            )  # fmt: skip

    def check_topology(self, topology: Topology) -> None:
        """Checks that operators and key groups are those that the state was written for.

        Raises:
            InvalidInput: the policy has other operators or other numbers of key groups.
        """
        path = self.folder / "topology.json"
        now = dict(zip(topology.ids, topology.key_groups, strict=True))
        known = read_json(path)
        if known is None:
            write_json(path, now)
        elif known != now:
            raise InvalidInput(
                f"the state was written for key groups {known}, the policy has {now}",
                value=now, allowed=str(known),
                remedy="restore the policy, or remove the job's folder to start again",
            )  # fmt: skip

    def _named(self, kind: str, name: PlacementName) -> Path:
        version, step = name
        suffix = "" if step is None else f"-step-{step}"
        return self.folder / f"{kind}-{version}{suffix}.json"

    def _batch(self, batch_id: int) -> Path:
        return self.folder / f"batch-{batch_id:014d}.json"
