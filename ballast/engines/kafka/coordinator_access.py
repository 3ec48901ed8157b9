"""The private members of kafka-python that following a plan needs, all in this place (ADR 75).

kafka-python has no public way to start a rebalance, to see whether one is under way, or to wait for
a commit in a listener. The extra ``kafka`` pins the version that these were read in, and tests
compare their effect with a real broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka import __version__ as installed
from kafka.structs import OffsetAndMetadata, TopicPartition

from ballast.contracts.errors import InvalidInput

KNOWN_VERSION = "3.0.12"
_NEEDED = (
    "request_rejoin", "need_rejoin", "rejoining", "_generation", "_commit_offsets_sync_async",
)  # fmt: skip


class CoordinatorAccess:
    """What a member does with its consumer's group coordinator.

    Raises:
        InvalidInput: the installed kafka-python is another than the one this was written for, and
            lacks a member that is needed.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        coordinator: Any = getattr(consumer, "_coordinator", None)
        missing = [name for name in _NEEDED if not hasattr(coordinator, name)]
        if missing:
            raise InvalidInput(
                f"kafka-python {installed} has no {', '.join(missing)} in its group coordinator",
                value=installed, allowed=KNOWN_VERSION,
                remedy=f"install kafka-python=={KNOWN_VERSION}, as the extra `kafka` does",
            )  # fmt: skip
        self._coordinator = coordinator

    @property
    def generation(self) -> int:
        """The generation of the group that this member was last in; -1 for none."""
        return int(self._coordinator._generation.generation_id)

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member has to join, or waits for the others to do so."""
        return bool(self._coordinator.rejoining or self._coordinator.need_rejoin())

    def request_rebalance(self) -> None:
        """Have the next poll join the group again, which starts a rebalance."""
        self._coordinator.request_rejoin()

    def finish_half_join(self) -> bool:
        """Have the next poll finish a join that kafka-python 3.0.12 forgets.

        A leader that joins because the topics' metadata changed forgets it if ``poll`` returns
        between its assignment and the group's answer: it stays half joined, sends no heartbeats,
        and the broker expels it.

        Returns:
            Whether there was such a join.
        """
        if not self._coordinator.rejoining or self._coordinator.need_rejoin():
            return False
        self._coordinator.request_rejoin()
        return True

    async def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit from a rebalance listener, and wait for the broker's answer."""
        wanted = {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
        await self._coordinator._commit_offsets_sync_async(wanted, timeout_ms=1000 * timeout_s)
