"""A user's function looks at dead letters, one after the other, where Spark has them: on the executors.

    def repair(letter: Letter) -> Message | None:
        order = json.loads(letter.body)
        if "currency" in order:
            return None                                             # stays a dead letter
        return letter.message(body=json.dumps({**order, "currency": "EUR"}).encode())

A message that it returns is sent, None leaves the letter where it is, and an exception is reported with its letter.
"""

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as f

from ternmq import Message
from ternmq_common.dead_letters import ATTEMPTS, DEAD_LETTER_PROPERTIES, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import DataFrame

# The outcome, or planned outcome, of a letter.
READY, SENT, LEFT, FAILED = "ready", "sent", "left", "failed"
WHY_CHARACTERS_MAX = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter as the message that it was; `properties` are without those that say that it is one.

    `attempts` is how often it was delivered, `reason` "attempts" or "forwarded" (its consumer gave it up).
    """

    message_id: str
    body: bytes = field(repr=False)
    tag: str | None
    keys: tuple[str, ...]
    message_group: str | None
    properties: Mapping[str, str]
    origin_topic: str
    origin_message_id: str | None
    attempts: int | None
    reason: str | None
    broker: str
    offset: int
    born: datetime | None
    stored: datetime | None

    def message(self, **changes: Any) -> Message:  # noqa: ANN401 - whatever a Message takes
        """The message for the topic that it came from; `changes` are fields of `ternmq.Message`."""
        fields: dict[str, Any] = {
            "topic": self.origin_topic,
            "body": self.body,
            "tag": self.tag,
            "keys": self.keys,
            "properties": dict(self.properties),
            "message_group": self.message_group,
        }
        return Message(**{**fields, **changes})


class WrongRepair(Exception):
    """There is no such function; the message says what is needed."""


Repair: TypeAlias = Callable[[Letter], Message | None]

# What a letter says of itself, what became of it, and what is to be sent. Times are microseconds since 1970: what a
# function gets for a timestamp depends on the time zone of the machine.
_DECISION = """
    origin_topic string, origin_message_id string, attempts int, reason string, outcome string, why string,
    to_topic string, new_body binary, new_keys array<string>, new_tag string, new_message_group string,
    new_properties map<string,string>, new_delivery_us bigint
"""
_OF_THE_LETTER = """
    broker string, queue_id int, offset bigint, message_id string, tag string, born_timestamp timestamp,
    store_timestamp timestamp, new_message_id string
"""
OUTCOME_SCHEMA = f"""
    {_OF_THE_LETTER}, {_DECISION.replace("new_delivery_us bigint", "new_delivery_timestamp timestamp")}
"""


def send_unchanged(letter: Letter) -> Message:
    """The repair of those that need none."""
    return letter.message()


def load_repair(name: str) -> Repair:
    """The function `module:function`; WrongRepair if there is none. Modules of the current folder are found, too."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise WrongRepair(f"{name!r} is not module:function, such as repairs:add_currency")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise WrongRepair(f"module {module_name} can't be imported: {error}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise WrongRepair(f"module {module_name} has no function {function_name}")
    _ship_module(module, here)
    repair: Repair = function
    return repair


def _ship_module(module: "ModuleType", folder: str) -> None:
    """A module that lies in the current folder isn't on the executors' path: it travels with the function."""
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).resolve().parent == Path(folder).resolve():
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def repair_letters(letters: "DataFrame", repair: Repair) -> "DataFrame":
    """OUTCOME_SCHEMA of columns of the source with `new_message_id`."""

    def decide_letter(row: Mapping[str, Any]) -> dict[str, Any]:
        return decision_of(row, repair)

    # Not deterministic: else Spark would call it for each column that is taken out of its result.
    function = f.udf(decide_letter, _DECISION, useArrow=False).asNondeterministic()
    known = [f.col(name) for name in letters.columns if name not in ("born_timestamp", "store_timestamp")]
    times = [f.unix_micros(name).alias(name) for name in ("born_timestamp", "store_timestamp")]
    decided = letters.withColumn("decision", function(f.struct(*known, *times))).select(*letters.columns, "decision.*")
    decided = decided.withColumn("new_delivery_timestamp", f.timestamp_micros("new_delivery_us"))
    return decided.drop("new_delivery_us", "keys", "message_group", "body", "properties", "corrupt")


def decision_of(row: Mapping[str, Any], repair: Repair) -> dict[str, Any]:
    """Return the decision about a letter; `row` has columns of the source, with times in microseconds."""
    letter = letter_of(row)
    known = {
        "origin_topic": letter.origin_topic or None,
        "origin_message_id": letter.origin_message_id,
        "attempts": letter.attempts,
        "reason": letter.reason,
    }
    if row["corrupt"] is not None:
        return {**known, "outcome": FAILED, "why": row["corrupt"]}
    try:
        message = repair(letter)
        to_send = None if message is None else _to_send(message)
    except Exception as error:  # noqa: BLE001 - whatever a user's function raises is reported with its letter
        why = "".join(traceback.format_exception_only(error)).strip()
        return {**known, "outcome": FAILED, "why": why[:WHY_CHARACTERS_MAX]}
    if to_send is None:
        return {**known, "outcome": LEFT}
    return {**known, "outcome": READY, **to_send}


def letter_of(row: Mapping[str, Any]) -> Letter:
    properties = row["properties"] or {}
    attempts = properties.get(ATTEMPTS, "")
    return Letter(
        message_id=row["message_id"],
        body=bytes(row["body"]),
        tag=row["tag"],
        keys=tuple(row["keys"] or ()),
        message_group=row["message_group"],
        properties={name: value for name, value in properties.items() if name not in DEAD_LETTER_PROPERTIES},
        origin_topic=properties.get(ORIGIN_TOPIC, ""),
        origin_message_id=properties.get(ORIGIN_MESSAGE_ID),
        attempts=int(attempts) if attempts.isascii() and attempts.isdigit() else None,
        reason=properties.get(REASON),
        broker=row["broker"],
        offset=row["offset"],
        born=_as_datetime(row["born_timestamp"]),
        stored=_as_datetime(row["store_timestamp"]),
    )


def _to_send(message: object) -> dict[str, Any]:
    """Return the columns of a message; it was checked when it was created."""
    if not isinstance(message, Message):
        raise TypeError(f"repair returned a {type(message).__name__}; a ternmq.Message or None is needed")
    for name in ("priority", "delay_level"):
        if getattr(message, name) is not None:
            raise ValueError(f"a message with {name} can't be sent from Spark")
    delivery_ms = message.delivery_timestamp_ms
    delivery_us = None if delivery_ms is None else delivery_ms * 1000
    if message.delay is not None:
        delivery_us = (datetime.now(UTC) + message.delay - _EPOCH) // _MICROSECOND
    return {
        "to_topic": message.topic,
        "new_body": message.body,
        "new_keys": list(message.keys),
        "new_tag": message.tag,
        "new_message_group": message.message_group,
        "new_properties": dict(message.properties),
        "new_delivery_us": delivery_us,
    }


def _as_datetime(time_us: int | None) -> datetime | None:
    return None if time_us is None else _EPOCH + time_us * _MICROSECOND
