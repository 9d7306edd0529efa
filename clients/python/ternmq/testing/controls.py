"""What a test can do with a broker besides sending and receiving: create topics and groups, and move time.

The module works for every way to run a broker: it calls the admin service at the broker's endpoint.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import cast

from ternmq.admin import brokers, groups, topics
from ternmq.admin.call import AdminCall, ValueT
from ternmq.admin.words import TYPES, LiteModel, LiteReset, TopicType
from ternmq.clock_jumps import report_jump
from ternmq.credentials import Credentials
from ternmq.endpoints import Endpoints
from ternmq.plain_calls import PlainCalls
from ternmq.tls import Tls, tls_options


class Controls(ABC):
    """A broker that a test controls.

    Calls block for some milliseconds, and may be made from any thread and from coroutines. Errors are those of the
    client library: `BadRequest`, `Forbidden`, `ConnectionFailed` and so on.
    """

    tls: Tls = False
    """The TLS of clients of this broker, if it has TLS."""

    credentials: Credentials | None = None
    """A super user's credentials, also for clients; None if the broker has no access control."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The address for clients, `host:port`."""

    @property
    def admin_endpoint(self) -> str:
        """The address of the admin service, `host:port`."""
        return self.endpoint

    def create_topic(
        self,
        name: str,
        type: str = "normal",  # noqa: A002
        queues: int | None = None,
        *,
        lite_ttl: timedelta | None = None,
    ) -> str:
        """Create a topic of type normal, fifo, delay, transaction, priority, lite or mixed; return its name.

        `queues` is how many message queues it has, by default as many as the server's `default_queues`. In a topic of
        type lite, a lite topic to which nothing was sent for `lite_ttl` is dropped.
        """
        if type not in TYPES:
            raise ValueError(f"no topic type {type!r}; there are: {', '.join(TYPES)}")
        self._send_call(topics.create_topic(name, cast("TopicType", type), queues or None, lite_ttl=lite_ttl))
        return name

    def create_group(
        self,
        name: str,
        *,
        fifo: bool = False,
        max_attempts: int | None = None,
        retry_backoff: str = "",
        consume_from: str = "",
        assignment: str = "",
        queue_lock_hold: timedelta = timedelta(0),
        priority_factor: int | None = None,
        lite_bind: str | None = None,
        lite_model: LiteModel | None = None,
        lite_quota: int | None = None,
        lite_wildcard: bool | None = None,
        lite_reset: Iterable[LiteReset] | None = None,
    ) -> str:
        """Create a consumer group; return its name.

        What is left out is the server's default. `max_attempts` includes the first delivery; `retry_backoff` is as
        for `ternmq group create`: `customized:1s,5s,10s` or `exponential:5s,2h,2`. `lite_bind` names the topic of type
        lite of a lite group.
        """
        settings = groups.GroupSettings(
            fifo=fifo,
            max_attempts=max_attempts or None,
            retry_backoff=retry_backoff,
            consume_from=consume_from,
            assignment=assignment,
            queue_lock_hold=queue_lock_hold,
            priority_factor=priority_factor,
            lite_bind=lite_bind,
            lite_model=lite_model,
            lite_quota=lite_quota,
            lite_wildcard=lite_wildcard,
            lite_reset=lite_reset,
        )
        self._send_call(groups.create_group(name, settings))
        return name

    def fresh_name(self, prefix: str = "test") -> str:
        """Return a name for a topic or group that no other test has."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def advance(self, by: timedelta | float) -> datetime:
        """Move the broker's clock forward at once; return its new time. A plain number is seconds.

        All that becomes due until then is due now, and once: a message that is hidden for a minute is delivered again
        once after an hour, not sixty times. That includes what push consumers of this process repeat by themselves,
        those of FIFO groups. `Forbidden` if the broker has no test clock, `BadRequest` unless time goes forward.
        """
        now = self._send_call(brokers.advance_clock(by))
        report_jump(Endpoints.parse(self.endpoint), by)
        return now

    def now(self) -> datetime:
        """Return the broker's time, in UTC."""
        now = self._send_call(brokers.server_info()).now
        assert now is not None, "a server of this version sends its time"
        return now

    def _send_call(self, call: AdminCall[ValueT]) -> ValueT:
        with PlainCalls(self.admin_endpoint, tls=tls_options(self.tls), credentials=self.credentials) as calls:
            return calls.send_call(call)
