"""Turns messages as 4.x producers send them into plain values."""

import secrets
from typing import Final, NamedTuple

from ternmq_common.catalog.delay_levels import delay_of_level
from ternmq_common.shard.hidden_fields import HiddenFields, encode_hidden
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, parse_origin
from ternmq_common.shard.property_text import read_properties
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.processors.sending.compression import Compression
from ternmq_proxy.processors.sending.producer_message import ProducerMessage

COMPRESSED: Final = 1
_COMPRESSION_MASK: Final = 0x700
_TRANSACTION_MASK: Final = 0xC
_HOSTS_MASK: Final = 0x30
# Older clients have no bits for zlib.
_COMPRESSIONS: Final = {0: Compression.GZIP, 0x100: Compression.LZ4, 0x200: Compression.ZSTD, 0x300: Compression.GZIP}
_NOT_KEPT: Final = COMPRESSED | _COMPRESSION_MASK | _TRANSACTION_MASK | _HOSTS_MASK
PROPERTIES_BYTES_MAX: Final = 2**15 - 1
_DIGITS_MAX: Final = 18
MILLISECOND_NS: Final = 1_000_000


class SentHeader(NamedTuple):
    """The fields of a send's header that belong to its message. `born_ms` is in milliseconds since the epoch."""

    topic: str
    flag: int
    system_flag: int
    born_ms: int
    born_host: str
    properties: str
    reconsume_times: int = 0


def read_sent_message(
    header: SentHeader, body: bytes, delay_levels_ms: tuple[int, ...], now_ms: int
) -> ProducerMessage:
    """Return the message. RequestRefused if its properties are too long, or a delay is not a number."""
    if len(header.properties) * 4 > PROPERTIES_BYTES_MAX and len(header.properties.encode()) > PROPERTIES_BYTES_MAX:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"message properties length over {PROPERTIES_BYTES_MAX} bytes: {len(header.properties.encode())}",
        )
    pairs = read_properties(header.properties)
    hidden, own = _sort_properties(pairs)
    is_transaction, delivery_ns = False, None
    if hidden:
        is_transaction = _is_half(pairs, header.reconsume_times)
        delivery_ns = None if is_transaction else _read_delivery_ns(pairs, delay_levels_ms, now_ms)
    born_ms, born_host = header.born_ms, header.born_host
    if MIRROR_PROPERTY in own and (origin := parse_origin(own[MIRROR_PROPERTY])) is not None:
        born_ms, born_host = origin.born_ms, origin.born_host
    kept = HiddenFields(header.flag, header.system_flag & ~_NOT_KEPT, header.reconsume_times, hidden)
    return ProducerMessage(
        topic=header.topic,
        body=body,
        message_id=pairs.get(names.UNIQUE_KEY) or secrets.token_hex(16).upper(),
        tag=pairs.get(names.TAGS, ""),
        keys=tuple(dict.fromkeys(pairs.get(names.KEYS, "").split())),
        properties=own,
        is_transaction=is_transaction,
        delivery_ns=delivery_ns,
        message_group=pairs.get(names.SHARDING_KEY, ""),
        recovery_ms=_read_number(pairs, names.CHECK_IMMUNITY_TIME) * 1000 if is_transaction else 0,
        trace_context=pairs.get(names.TRACE_CONTEXT),
        born_ns=born_ms * MILLISECOND_NS,
        born_host=born_host,
        is_compressed=bool(header.system_flag & COMPRESSED),
        compression=_read_compression(header.system_flag),
        must_inflate=True,
        unknown_system=encode_hidden(kept),
    )


def _sort_properties(pairs: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the reserved properties that are hidden, and the producer's own."""
    hidden: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in pairs.items():
        if name not in names.RESERVED:
            own[name] = value
        elif name not in names.NOT_HIDDEN:
            hidden[name] = value
    return hidden, own


def _read_compression(system_flag: int) -> Compression:
    if not system_flag & COMPRESSED:
        return Compression.GZIP
    compression = _COMPRESSIONS.get(system_flag & _COMPRESSION_MASK)
    if compression is None:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL, f"bits {system_flag & _COMPRESSION_MASK:#x} name no known compression"
        )
    return compression


def _is_half(pairs: dict[str, str], reconsume_times: int) -> bool:
    """Return whether it is a half message: a delayed retry never is."""
    is_marked = pairs.get(names.TRANSACTION_PREPARED, "").lower() == "true"
    return is_marked and not (reconsume_times > 0 and _read_number(pairs, names.DELAY_LEVEL) > 0)


def _read_delivery_ns(pairs: dict[str, str], delay_levels_ms: tuple[int, ...], now_ms: int) -> int | None:
    """Return when a delayed message is due, None for an ordinary one; a delay level wins over a time."""
    level = _read_number(pairs, names.DELAY_LEVEL)
    if level > 0:
        return (now_ms + delay_of_level(delay_levels_ms, level)) * MILLISECOND_NS
    if names.TIMER_DELAY_SEC in pairs:
        return (now_ms + _read_number(pairs, names.TIMER_DELAY_SEC) * 1000) * MILLISECOND_NS
    if names.TIMER_DELAY_MS in pairs:
        return (now_ms + _read_number(pairs, names.TIMER_DELAY_MS)) * MILLISECOND_NS
    if names.TIMER_DELIVER_MS in pairs:
        return _read_number(pairs, names.TIMER_DELIVER_MS) * MILLISECOND_NS
    return None


def _read_number(pairs: dict[str, str], name: str) -> int:
    """Return a number, 0 if it is missing."""
    text = pairs.get(name, "0")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(text) > _DIGITS_MAX:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"property {name} is {text[:40]!r}, not a number")
    return int(text)
