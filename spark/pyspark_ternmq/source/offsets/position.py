"""The position of a stream: the offsets of its queues, and the identities of their topics; pure.

Kept        in Spark's checkpoint as `{topic: {"broker/queue id": offset}, "@identities": {topic: identity}}`; no topic
            can have such a name. Checkpoints of earlier releases, and of servers without identities, have none.
Recreated   is a topic whose identity differs from that of the checkpoint: it was deleted and created again, and the
            checkpoint's offsets mean nothing in it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.offsets.places import IDENTITIES, Identities, Offsets

# As Spark hands it over, and takes it.
Kept = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Offsets, and the identities of their topics as far as they are known."""

    offsets: Offsets
    identities: Identities = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        """WrongOption for what is no position of a stream: the checkpoint of a query that read something else."""
        offsets = {topic: of_topic for topic, of_topic in kept.items() if topic != IDENTITIES}
        identities = kept.get(IDENTITIES, {})
        if not all(map(_are_queues, offsets.values())) or not isinstance(identities, Mapping):
            raise WrongOption(
                f"the checkpoint is not one of a stream of topics, at {json.dumps(kept)[:200]}: name another folder"
            )
        return cls(offsets, identities)

    def to_kept(self) -> Kept:
        """Return the form for the checkpoint."""
        return {**self.offsets, IDENTITIES: {**self.identities}} if self.identities else {**self.offsets}

    def find_offset(self, topic: str, queue: str) -> int | None:
        """Return the offset of a queue; None of a new one."""
        return self.offsets.get(topic, {}).get(queue)

    def recreated_topics(self, identities: Identities) -> list[str]:
        """The topics that are others than they were here."""
        return [
            topic
            for topic, identity in identities.items()
            if identity and identity != self.identities.get(topic, identity)
        ]

    def moved_to(self, ends: Offsets, identities: Identities) -> "StreamPosition":
        """This position after a micro-batch up to `ends`. Queues that are not there now keep their offsets, but not
        those of a topic that was created again."""
        recreated = self.recreated_topics(identities)
        offsets = {
            topic: {**({} if topic in recreated else self.offsets.get(topic, {})), **ends.get(topic, {})}
            for topic in dict.fromkeys((*self.offsets, *ends))
        }
        known = {topic: identity for topic, identity in identities.items() if identity and topic in offsets}
        return StreamPosition(offsets, {**self.identities, **known})


def _are_queues(of_topic: object) -> bool:
    return isinstance(of_topic, Mapping) and all("/" in name and isinstance(at, int) for name, at in of_topic.items())
