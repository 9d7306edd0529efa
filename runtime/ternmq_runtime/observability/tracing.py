"""The current span of a call, and child spans for parts of it; nothing here needs OpenTelemetry to be installed.

A process that records no traces never sets the context, so `child_span` and `current_traceparent` cost it one look at
the context. `otel_traces` creates the spans.
"""

import re
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

Attribute = str | int

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f](?P<sampled>[0-9a-f])(-.*)?", re.ASCII)
_ODD = frozenset("13579bdf")


def is_recorded(traceparent: str) -> bool | None:
    """Return whether the trace of a W3C `traceparent` is recorded; None if the text is malformed."""
    match = _TRACEPARENT.fullmatch(traceparent)
    return None if match is None else match["sampled"] in _ODD


class ActiveSpan(Protocol):
    """A recorded span; `traceparent` names it as the parent of others, in W3C's form."""

    @property
    def traceparent(self) -> str: ...
    def start_child(self, name: str, attributes: "Mapping[str, Attribute]") -> "ActiveSpan": ...
    def mark_failed(self, error: str) -> None: ...
    def end_span(self) -> None: ...


class SpanFactory(Protocol):
    """Creates the spans of a process that exports traces."""

    def begin_span(
        self,
        name: str,
        parent: str,
        attributes: "Mapping[str, Attribute]",
        *,
        links: "Iterable[str]" = (),
        began_ns: int | None = None,
    ) -> ActiveSpan | None:
        """Begin the span of a client's call; None if it is not recorded. The parent, if not empty, decides that."""

    def remote_span(self, traceparent: str) -> ActiveSpan:
        """Return the representation of a span of the calling process."""


_current: ContextVar[ActiveSpan | None] = ContextVar("ternmq_span", default=None)
NOTHING: AbstractContextManager[None] = nullcontext()


def current_traceparent() -> str:
    """Return the `traceparent` of the current call for other processes; empty if it is not recorded."""
    active = _current.get()
    return "" if active is None else active.traceparent


def mark_current_failed(error: str) -> None:
    """Mark the current call as failed."""
    active = _current.get()
    if active is not None:
        active.mark_failed(error)


def child_span(operation: str, destination: str) -> AbstractContextManager[object]:
    """Create the span of a part of the current call, `append TOPIC`; does nothing if the call is not traced."""
    active = _current.get()
    if active is None:
        return NOTHING
    attributes = messaging_attributes(operation, destination)
    return SpanContext(active.start_child(f"{operation} {destination}", attributes))


def messaging_attributes(operation: str, destination: str) -> dict[str, Attribute]:
    """Return the attributes that OpenTelemetry's conventions require of messaging operations."""
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.destination.name": destination,
    }


class SpanContext(AbstractContextManager[ActiveSpan]):
    """Makes a span the current one, ends it, and marks it as failed by an exception."""

    __slots__ = ("_active", "_token")

    def __init__(self, active: ActiveSpan) -> None:
        self._active = active

    def __enter__(self) -> ActiveSpan:
        self._token: Token[ActiveSpan | None] = _current.set(self._active)
        return self._active

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        _current.reset(self._token)
        if error is not None:
            self._active.mark_failed(type(error).__name__)
        self._active.end_span()
