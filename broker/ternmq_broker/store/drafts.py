"""What is to be stored: messages, and records of any kind, before they have a place."""

from dataclasses import dataclass

from ternmq_broker.store.log.record import Kind, Origin, Reference


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message to be stored; see `ternmq_common.model.NewMessage` for `system`, `rest` and `keys`. With a `reference`
    its rest is that of the record there, and its own is empty."""

    tag_hash: int
    system: bytes
    rest: bytes
    keys: "tuple[str, ...]"
    reference: Reference | None = None


NO_MESSAGE = Incoming(0, b"", b"", ())
"""What an operation or a tombstone holds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be stored; see `record` for the kinds, the origin and the sender. `due_ms` is a timer's."""

    kind: Kind
    topic: str
    queue_id: int
    message: Incoming
    due_ms: int = 0
    origin: Origin | None = None
    sender: str = ""
