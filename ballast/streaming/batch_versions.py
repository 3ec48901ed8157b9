"""Durable record of the plan version of each batch, and of the content of each version.

"Batch b uses version v" is on disk before the batch changes anything, and a replay of b uses v
again, even if the head has changed ([MW16-LOCALITY, 3.4]: the configuration is on stable storage
before the reconfiguration starts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ballast.contracts.errors import InvalidInput
from ballast.streaming.atomic_files import read_json, write_json
from ballast.streaming.operators import Topology
from ballast.streaming.routing import Placement

KEEP_DECISIONS = 20


@dataclass(frozen=True)
class VersionDecision:
    """Batch ``batch_id`` runs under ``version``, the batch before under ``previous_version``."""

    batch_id: int
    version: int
    previous_version: int

    @property
    def takes_up(self) -> bool:
        """Whether this batch takes its version up."""
        return self.version != self.previous_version


@dataclass(frozen=True)
class MoveFigures:
    """What the take-up of a version moved and how long it paused, measured while copying."""

    moved_key_groups: int
    bytes_moved: int
    pause_ms: float
    moved_keys: int = 0
    """Keys with state that changed their key group."""


class DecisionLog:
    """Decisions by batch, placements and move figures by version, each in its own file."""

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

    def placement(self, version: int) -> Placement | None:
        """The content of a version, or None if it was not recorded."""
        found = read_json(self.folder / f"placement-{version}.json")
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
            splits,
        )  # fmt: skip

    def record_placement(self, placement: Placement) -> None:
        """Makes the content of a version durable; called before a decision names the version."""
        content = {
            "version": placement.version,
            "plan_id": placement.plan_id,
            "nodes": dict(placement.nodes),
            "routes": dict(placement.routes),
            "scaling": [list(row) for row in placement.scaling],
            "weights": [list(row) for row in placement.weights],
            "splits": {operator: dict(keys) for operator, keys in placement.splits.items()},
        }
        write_json(self.folder / f"placement-{placement.version}.json", content)

    def moved(self, version: int) -> MoveFigures | None:
        """Figures of a version's moves, or None if they have not been completed."""
        found = read_json(self.folder / f"moved-{version}.json")
        return None if found is None else MoveFigures(**found)

    def record_moved(self, version: int, figures: MoveFigures) -> None:
        """Makes the figures of the first complete move durable; a replay does not change them."""
        write_json(self.folder / f"moved-{version}.json", asdict(figures))

    def forget_versions(self, keep: Sequence[int]) -> None:
        """Removes contents and figures of all versions but those in ``keep``."""
        for kind in ("placement", "moved"):
            for path in self.folder.glob(f"{kind}-*.json"):
                if int(path.stem.removeprefix(f"{kind}-")) not in keep:
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

    def _batch(self, batch_id: int) -> Path:
        return self.folder / f"batch-{batch_id:014d}.json"
