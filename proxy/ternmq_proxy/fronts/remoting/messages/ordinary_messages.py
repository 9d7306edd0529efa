"""Reads ordinary messages of 4.x producers straight into stored form, which costs less than anything between would.

Ordinary   are messages without delay, order or transaction, uncompressed, with an id of their own, with nothing wrong,
           and with nothing to hide (`hidden_fields.py`), whose properties have each name once. Anything else is no
           error here: `sent_messages.py` reads it, and `operations/by_queue/send.py` says what is wrong.
"""

from typing import TYPE_CHECKING, Final

from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, parse_origin
from ternmq_common.shard.model import NewMessage
from ternmq_common.wire import encode_field
from ternmq_proxy.fronts.remoting.messages.property_names import (
    KEYS,
    NOT_HIDDEN,
    RESERVED,
    TAGS,
    TRACE_CONTEXT,
    UNIQUE_KEY,
)
from ternmq_proxy.fronts.remoting.messages.sent_messages import MILLISECOND_NS, PROPERTIES_BYTES_MAX
from ternmq_proxy.operations.send_special import QUICK_BYTES_MAX
from ternmq_proxy.processors.sending.stored_form import (
    body_checksum,
    is_calendar_time,
    write_birth,
    write_ordinary,
    write_property,
)

if TYPE_CHECKING:
    from ternmq_common.limits import MessageLimits
    from ternmq_proxy.fronts.remoting.messages.sent_messages import SentHeader

_PAIR_CHARACTERS_MIN: Final = 3
_KEYS_MAX: Final = 128
# Neither the users' nor kept.
_DROPPED: Final = NOT_HIDDEN - {KEYS, TAGS, UNIQUE_KEY, TRACE_CONTEXT}


class OrdinaryReader:
    """Reads the messages of one request, which have its header in common."""

    __slots__ = ("_birth", "_is_ordinary", "_limits")

    def __init__(self, header: "SentHeader", now_ms: int, limits: "MessageLimits") -> None:
        born_ns = header.born_ms * MILLISECOND_NS
        self._limits = limits
        self._is_ordinary = not (header.flag or header.system_flag or header.reconsume_times)
        self._birth = write_birth(born_ns if is_calendar_time(born_ns) else now_ms * MILLISECOND_NS, header.born_host)

    def read_message(self, properties: str, body: bytes, flag: int = 0) -> NewMessage | None:
        """Return the message in stored form; None if it is not ordinary. `flag` is its own in a batch."""
        limits, size = self._limits, len(body)
        if flag or not self._is_ordinary or not 0 < size <= limits.body_bytes_max or size > QUICK_BYTES_MAX:
            return None
        # A character has at most four bytes.
        if 4 * len(properties) > min(PROPERTIES_BYTES_MAX, limits.properties_bytes_max):
            return None
        own: dict[str, str] = {}
        texts = _sort_properties(properties, own)
        if texts is None or len(own) > limits.properties_max:
            return None
        message_id, tag, keys = texts
        names = (message_id, *keys.split()) if keys else (message_id,)
        if len(names) > 2 and (len(names) > _KEYS_MAX or len(set(names[1:])) < len(names) - 1):
            return None
        text = message_id + tag + keys
        rest = encode_field(b"\x22", body)
        birth = self._birth
        if own:
            if MIRROR_PROPERTY in own:
                birth = _read_birth(own[MIRROR_PROPERTY]) or birth
            text += "".join(own) + "".join(own.values())
            rest = b"".join([write_property(name, value) for name, value in own.items()]) + rest
        if not text.isprintable() or message_id.isspace() or "|" in tag or tag.isspace():
            return None
        system = write_ordinary(tag, names, body_checksum(body), birth)
        if len(system) + len(rest) - size > limits.stored_properties_bytes_max:
            return None
        return NewMessage(tag_hash(tag), system, rest, names)


def _read_birth(mirrored: str) -> bytes | None:
    """Return the birth of a message that a mirror copied, None if it says none."""
    origin = parse_origin(mirrored)
    if origin is None or not is_calendar_time(born_ns := origin.born_ms * MILLISECOND_NS):
        return None
    return write_birth(born_ns, origin.born_host)


def _sort_properties(properties: str, own: dict[str, str]) -> tuple[str, str, str] | None:
    """Return id, tag and keys, "" for none, and add the producer's own properties to `own`. None for a message without
    an id, a name that occurs twice, and a property that is to be hidden."""
    message_id = tag = keys = ""
    for pair in properties.split("\x02"):
        name, _, value = pair.partition("\x01")
        if not value or not name or len(pair) < _PAIR_CHARACTERS_MIN or name in _DROPPED:
            continue
        if name == UNIQUE_KEY and not message_id:
            message_id = value
        elif name == TAGS and not tag:
            tag = value
        elif name == KEYS and not keys:
            keys = value
        elif name in RESERVED or name in own:
            return None
        else:
            own[name] = value
    return (message_id, tag, keys) if message_id else None
