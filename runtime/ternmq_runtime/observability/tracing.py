"""Where a call is in its trace, and spans for parts of it; nothing here needs OpenTelemetry to be installed.

A process that makes no traces never sets the context, so that `span` and `current_traceparent` cost it one look at it.
`otel_traces` makes the spans.
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


def recorded(traceparent: str) -> bool | None:
    """Whether the trace that a W3C `traceparent` names is recorded; None if the text is none."""
    match = _TRACEPARENT.fullmatch(traceparent)
    return None if match is None else match["sampled"] in _ODD


class ActiveSpan(Protocol):
    """A span that is recorded; `traceparent` is it as the parent of others, in W3C's form."""

    @property
    def traceparent(self) -> str: ...
    def child(self, name: str, attributes: "Mapping[str, Attribute]") -> "ActiveSpan": ...
    def failed(self, error: str) -> None: ...
    def end(self) -> None: ...


class Tracing(Protocol):
    """Makes the spans of a process whose traces go somewhere."""

    def begin(
        self,
        name: str,
        parent: str,
        attributes: "Mapping[str, Attribute]",
        *,
        links: "Iterable[str]" = (),
        began_ns: int | None = None,
    ) -> ActiveSpan | None:
        """A span of a client's call, None if it is not to be recorded; the parent, if it is not empty, decides."""

    def remote(self, traceparent: str) -> ActiveSpan:
        """What stands for a span of the process that called this one."""


_current: ContextVar[ActiveSpan | None] = ContextVar("ternmq_span", default=None)
NOTHING: AbstractContextManager[None] = nullcontext()


def current_traceparent() -> str:
    """What others are to be told of the trace that this call belongs to; empty if it is not recorded."""
    active = _current.get()
    return "" if active is None else active.traceparent


def mark_failed(error: str) -> None:
    """The call under way has failed."""
    active = _current.get()
    if active is not None:
        active.failed(error)


def span(operation: str, destination: str) -> AbstractContextManager[object]:
    """A part of the call under way, `append TOPIC`; nothing if the call is not traced."""
    active = _current.get()
    if active is None:
        return NOTHING
    attributes = messaging_attributes(operation, destination)
    return Within(active.child(f"{operation} {destination}", attributes))


def messaging_attributes(operation: str, destination: str) -> dict[str, Attribute]:
    """What the conventions want to know of everything that is done with messages."""
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.destination.name": destination,
    }


class Within(AbstractContextManager[ActiveSpan]):
    """Makes a span the current one, ends it, and notes an error."""

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
            self._active.failed(type(error).__name__)
        self._active.end()
