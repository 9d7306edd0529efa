"""The table of remote calls: the calls of a proxy to a broker in another process, and their rules.

Arguments and results are those of the protocols in `shard.py`, from which `remote_shard.py` is generated. A new call
needs a method there, a line here, the broker's method, and one of the proxy's service where no argument names the
broker.
"""

import enum
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

from msgspec import defstruct, structs

from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.names import lite_parent
from ternmq_common.shard import shard, shard_frames
from ternmq_common.shard.model import PopOrder
from ternmq_common.shard.ranges import Int64
from ternmq_common.shard.shard_frames import FramePiece, filter_text

ANSWER_TIMEOUT_S = 2.0
# A search of the log may take longer than a call of the hot path.
SEARCH_TIMEOUT_S = 10.0


class CallRepeat(enum.Enum):
    """Whether a call is repeated when its broker is away."""

    ALWAYS = "a repetition does no harm"
    UNASKED = "only if the broker did not get the call"
    NEVER = "the caller decides"


class CallRules(NamedTuple):
    """The rules of one call.

    `reads`: it changes nothing, so that it ends when its caller is gone. `topic` and `group` are the
    arguments that name, or have, the topic or group whose `created_version` goes along. `waits` is the argument with
    the seconds that the broker waits by itself.
    """

    repeat: CallRepeat = CallRepeat.ALWAYS
    reads: bool = False
    timeout_s: float = ANSWER_TIMEOUT_S
    topic: str = ""
    group: str = ""
    waits: str = ""


_SEARCH = CallRules(reads=True, timeout_s=SEARCH_TIMEOUT_S)
_UNASKED, _NEVER = CallRepeat.UNASKED, CallRepeat.NEVER

RULES = {
    "append": CallRules(_UNASKED, topic="queue"),
    "append_each": CallRules(_NEVER),
    "schedule": CallRules(_UNASKED, topic="queue"),
    "recall": CallRules(),
    "begin_transaction": CallRules(_UNASKED, topic="queue"),
    "end_transaction": CallRules(),
    "transactions": _SEARCH,
    "transaction": CallRules(timeout_s=SEARCH_TIMEOUT_S),
    "pop": CallRules(_NEVER, group="order"),
    "urgency": CallRules(_NEVER, reads=True),
    "sync_lite": CallRules(group="sync"),
    "lite_clients": CallRules(_NEVER, reads=True),
    "acknowledge": CallRules(),
    "change_invisible": CallRules(_UNASKED),
    "prolong": CallRules(),
    "release": CallRules(),
    "dead_letter": CallRules(),
    "pull": _SEARCH._replace(group="reader", waits="poll_s"),
    "wait_for_more": _SEARCH._replace(waits="poll_s"),
    "bounds": CallRules(),
    "offset_at": _SEARCH,
    "begin_pulling": CallRules(group="group"),
    "committed": CallRules(group="group"),
    "set_committed": CallRules(group="group"),
    "skip": CallRules(group="group"),
    "leave": CallRules(_NEVER),
    "lock_queues": CallRules(_NEVER),
    "unlock_queues": CallRules(_NEVER),
    "has_locks": CallRules(_NEVER, reads=True),
    "hold_way": CallRules(_NEVER),
    "release_way": CallRules(_NEVER),
    "drop_retries": CallRules(),
    "purge": CallRules(timeout_s=SEARCH_TIMEOUT_S),
    "progress": _SEARCH._replace(repeat=_NEVER),
    "subscribed": CallRules(_NEVER),
    "find_by_key": _SEARCH._replace(repeat=_NEVER),
    "standings": _SEARCH._replace(repeat=_NEVER),
    "content": _SEARCH._replace(repeat=_NEVER),
    "timers": _SEARCH,
    "history": CallRules(_NEVER, reads=True),
    "dead_letters": _SEARCH,
    "find_by_log_offset": _SEARCH,
    "retry": CallRules(_NEVER, topic="topic", group="group"),
    "remaining": _SEARCH,
    "pulling_members": CallRules(_NEVER),
    "ask_proxies": CallRules(_NEVER, reads=True),
    "forget_topic": CallRules(_NEVER, timeout_s=SEARCH_TIMEOUT_S),
    "forget_group": CallRules(_NEVER, timeout_s=SEARCH_TIMEOUT_S),
}


T = TypeVar("T")
Values = tuple[Any, ...]
"""The arguments of a call, all of them, in the order of its signature."""
Ask = Callable[["ShardCall", Values], Awaitable[Any]]
"""Makes a call, and returns what the method of that name returns."""


def _with_filter_text(order: PopOrder) -> PopOrder:
    return structs.replace(order, filter=filter_text(order.filter))


# How arguments are encoded that do not travel as they are: a compiled filter travels as its text.
_ENCODERS: dict[object, Callable[[Any], object]] = {
    MessageFilter: filter_text,
    PopOrder: _with_filter_text,
    Sequence[Int64]: list,  # it may be a range
}


def find_method(name: str) -> Callable[..., object]:
    """The method of that name of the protocols."""
    [method] = {method for protocol in shard.PROTOCOLS if (method := getattr(protocol, name, None)) is not None}
    found: Callable[..., object] = method
    return found


class ShardCall:
    """One row of the table, with the codecs of its annotations."""

    def __init__(self, name: str, rules: CallRules) -> None:
        method = find_method(name)
        hints = get_type_hints(method, include_extras=True)
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self.name = name
        self.rules = rules
        self._names = tuple(each.name for each in parameters)
        self._positional = sum(each.kind is not each.KEYWORD_ONLY for each in parameters)
        fields = [
            (each.name, hints[each.name]) if each.default is each.empty else (each.name, hints[each.name], each.default)
            for each in parameters
        ]
        self._arguments = shard_frames.create_decoder(defstruct(name, fields, array_like=True, gc=False))
        self._result = shard_frames.create_decoder(get_args(hints["return"])[0])
        self._encoders = [
            (place, _ENCODERS[hints[name]]) for place, name in enumerate(self._names) if hints[name] in _ENCODERS
        ]
        self._topic, self._group, self._waits = map(self._position_of, (rules.topic, rules.group, rules.waits))
        names_broker = [name == "broker" or hasattr(hints[name], "broker") for name in self._names]
        self.broker = names_broker.index(True) if any(names_broker) else None
        """The position of the argument that is, or has, its broker's name."""

    def _position_of(self, name: str) -> int | None:
        return self._names.index(name) if name else None

    # --- for the caller

    def answer_timeout_s(self, values: Values) -> float:
        """How many seconds the answer may take."""
        return self.rules.timeout_s if self._waits is None else self.rules.timeout_s + float(values[self._waits])

    def encode_call(self, number: int, values: Values, *of_call: object) -> bytes:
        """Encode the piece with the call."""
        for place, encode in self._encoders:
            values = (*values[:place], encode(values[place]), *values[place + 1 :])
        return shard_frames.encode_piece(self.name, number, values, *of_call)

    def decode_result(self, answer: FramePiece) -> object:
        """Decode the result of the call. NoFrame if it is invalid."""
        return shard_frames.decode_body(answer, self._result)

    # --- for the broker

    def decode_arguments(self, arguments: FramePiece) -> Values:
        """Decode the arguments; a filter is a FilterText. NoFrame if they are invalid."""
        return structs.astuple(shard_frames.decode_body(arguments, self._arguments))

    def call_method(self, method: Callable[..., T], values: Values) -> T:
        """Call a method of the same signature."""
        if self._positional == len(values):
            return method(*values)
        positional = self._positional
        return method(*values[:positional], **dict(zip(self._names[positional:], values[positional:], strict=True)))

    # --- for both

    def required_topic(self, values: Values) -> str:
        """The topic that the broker must know, or empty."""
        return "" if self._topic is None else lite_parent(_name_of(values[self._topic], "topic"))

    def required_group(self, values: Values) -> str:
        """The group that the broker must know, or empty."""
        return "" if self._group is None else _name_of(values[self._group], "group")


def _name_of(value: object, kind: str) -> str:
    return value if isinstance(value, str) else getattr(value, kind, "")


CALLS: Final = {name: ShardCall(name, rules) for name, rules in RULES.items()}
