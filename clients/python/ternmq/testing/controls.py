"""What a test does with a broker beside sending and receiving: topics, groups, and time.

The module is the same for every way to run a broker: it asks the admin service at the broker's endpoint.
"""

import contextlib
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import cast

from ternmq.command.admin import TYPES, AdminClient
from ternmq.command.failures import CommandFailure, Refused, Unreachable
from ternmq.errors import ConnectionFailed, Unsupported, error_of
from ternmq_common.errors import code_name
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2


class Controls(ABC):
    """A broker in the hands of a test.

    Calls block for some milliseconds, and may be made from any thread and from coroutines. What goes wrong is raised as
    in the client library: `BadRequest`, `Forbidden`, `ConnectionFailed` and so on.
    """

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Where clients connect, `host:port`."""

    def create_topic(self, name: str, type: str = "normal", queues: int | None = None) -> str:  # noqa: A002
        """Make a topic of type normal, fifo, delay, transaction, priority or lite; its name.

        `queues` is how many message queues it has, by default as many as the server's `default_queues`.
        """
        if type not in TYPES:
            raise ValueError(f"no topic type {type!r}; there are: {', '.join(TYPES)}")
        with self._admin() as admin:
            admin.create_topic(name, type, queues or 0)
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
    ) -> str:
        """Make a consumer group; its name.

        What is left out is the server's default. `max_attempts` counts the first delivery too; `retry_backoff` is as
        for `ternmq group create`: `customized:1s,5s,10s` or `exponential:5s,2h,2`.
        """
        group = admin_pb2.Group(
            name=name,
            fifo=fifo,
            max_attempts=max_attempts or 0,
            retry_backoff=retry_backoff,
            consume_from=consume_from,
            assignment=assignment,
            priority_factor=priority_factor,
        )
        if queue_lock_hold:
            group.queue_lock_hold.FromTimedelta(queue_lock_hold)
        with self._admin() as admin:
            admin.create_group(group)
        return name

    def fresh_name(self, prefix: str = "test") -> str:
        """A name for a topic or group that no other test has."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def advance(self, by: timedelta | float) -> datetime:
        """Let so much time pass at the broker, at once; the time that it has then. A plain number is seconds.

        All that is due until then is due now, and once: a message that is hidden for a minute comes again once after
        an hour, not sixty times. `Forbidden` if the broker has no test clock, `BadRequest` unless time goes forward.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        # The server counts milliseconds; less than one would be none.
        return self._advance(timedelta(milliseconds=math.ceil(seconds * 1000)))

    def now(self) -> datetime:
        """What time it is at the broker, in UTC."""
        with self._admin() as admin:
            return admin.server_info().now.ToDatetime(tzinfo=UTC)

    def _advance(self, passing: timedelta) -> datetime:
        with self._admin() as admin:
            return admin.advance_clock(passing).now.ToDatetime(tzinfo=UTC)

    @contextlib.contextmanager
    def _admin(self) -> Iterator[AdminClient]:
        """The admin service; its failures are those of the client library, not of the command."""
        with AdminClient(self.endpoint) as admin:
            try:
                yield admin
            except Refused as refusal:
                said = refusal.message.removeprefix(f"{code_name(refusal.code)}: ")
                raise error_of(cast("definition_pb2.Code", refusal.code), said) from None
            except Unreachable as failure:
                raise ConnectionFailed(self.endpoint, failure.message) from None
            except CommandFailure as failure:
                raise Unsupported(definition_pb2.NOT_IMPLEMENTED, failure.message) from None
