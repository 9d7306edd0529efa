"""Filters: which messages of a topic a consumer wants."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ternmq.errors import BadRequest
from ternmq.messages.message import has_lone_surrogate
from ternmq_protos.v2 import definition_pb2 as pb


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Selects messages with one of some tags: `TagFilter("paid || refunded")`; `*` means all.

    A plain string in a subscription means the same.
    """

    expression: str = "*"

    def __post_init__(self) -> None:
        tags = [tag.strip() for tag in self.expression.split("||") if tag.strip()]
        if not tags:
            raise BadRequest(pb.ILLEGAL_FILTER_EXPRESSION, f"{self.expression!r} names no tag; write '*' for all")
        _check_text(self.expression)
        if any("|" in tag for tag in tags):
            text = f"{self.expression!r} has a single |, which no tag can have; write a || b for one of two tags"
            raise BadRequest(pb.ILLEGAL_FILTER_EXPRESSION, text)

    def to_proto(self) -> pb.FilterExpression:
        return pb.FilterExpression(type=pb.TAG, expression=self.expression)


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Selects messages whose properties meet an SQL92 condition: `SqlFilter("amount > 5 AND region IN ('eu')")`."""

    expression: str

    def __post_init__(self) -> None:
        if not self.expression.strip():
            raise BadRequest(pb.ILLEGAL_FILTER_EXPRESSION, "the SQL expression is empty")
        _check_text(self.expression)

    def to_proto(self) -> pb.FilterExpression:
        return pb.FilterExpression(type=pb.SQL, expression=self.expression)


def _check_text(expression: str) -> None:
    if has_lone_surrogate(expression):
        raise BadRequest(pb.ILLEGAL_FILTER_EXPRESSION, f"{expression!r} must not hold lone surrogates")


Filter = TagFilter | SqlFilter
Subscriptions = Mapping[str, str | Filter]


def check_subscriptions(subscriptions: Subscriptions) -> dict[str, Filter]:
    """Return topic to filter; a plain string is a tag expression. TypeError for anything else."""
    if not isinstance(subscriptions, Mapping):
        raise TypeError(
            f"subscriptions is topic to filter: write subscriptions={{{_suggest_subscriptions(subscriptions)}}}"
        )
    return {topic: _check_filter(topic, wanted) for topic, wanted in subscriptions.items()}


def _suggest_subscriptions(topics: object) -> str:
    """Return how to subscribe to all of the given topics."""
    names = [topics] if isinstance(topics, str) else topics
    if not isinstance(names, Iterable):
        return '"topic": "*"'
    return ", ".join(f'"{name}": "*"' for name in names)


def _check_filter(topic: object, wanted: object) -> Filter:
    if not isinstance(topic, str):
        raise TypeError(f"subscriptions is topic to filter, and {topic!r} is no name of a topic")
    if isinstance(wanted, str):
        return TagFilter(wanted)
    if not isinstance(wanted, Filter):
        raise TypeError(f'the filter of {topic} is no filter: write {{"{topic}": "*"}} for all, not {wanted!r}')
    return wanted
