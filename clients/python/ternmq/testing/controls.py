"""Controls of a broker for tests: creates topics and groups, and moves time.

The module works for every way to run a broker: it calls the admin service at the broker's endpoint.
"""

import uuid
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import Unpack, cast

from ternmq.admin import brokers, groups, topics
from ternmq.admin.clients.plain_calls import PlainCalls
from ternmq.admin.requests.call import AdminCall, ValueT
from ternmq.admin.requests.words import TYPES, TopicType
from ternmq.clock_jumps import report_jump
from ternmq.connections.credentials import Credentials
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.tls import Tls, tls_options


class Controls(ABC):
    """A broker that a test controls.

    Calls block for some milliseconds, and are allowed in any thread and in coroutines. Errors are those of the
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
        **settings: Unpack[topics.TopicSettings],
    ) -> str:
        """Create a topic of type normal, fifo, delay, transaction, priority, lite or mixed; return its name.

        `queues` is how many message queues it has, by default as many as the server's `default_queues`.
        """
        if type not in TYPES:
            raise ValueError(f"no topic type {type!r}; there are: {', '.join(TYPES)}")
        self._send_call(topics.create_topic(name, cast("TopicType", type), queues or None, **settings))
        return name

    def create_group(self, name: str, **settings: Unpack[groups.GroupSettings]) -> str:
        """Create a consumer group; return its name. Omitted settings have the server's default."""
        self._send_call(groups.create_group(name, **settings))
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
