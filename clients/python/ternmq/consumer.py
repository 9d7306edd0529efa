"""The base of consumers: a group, subscriptions, assignments, and the settling of deliveries."""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any, Protocol, Unpack

from ternmq import connection as calls
from ternmq.acknowledging import Refused, ack_request, refused_of
from ternmq.assigning import Assigning
from ternmq.client import Client
from ternmq.endpoints import Endpoints
from ternmq.errors import BadRequest, ClientError, check
from ternmq.filters import Subscriptions, checked_subscriptions
from ternmq.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.polls import Polls
from ternmq.reachability import level_of
from ternmq.route import Queue, queues_to_try
from ternmq.wire_time import duration
from ternmq_common.errors import MessagingError
from ternmq_common.names import checked_group, checked_topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

# A server of TernMQ ends the polls of a retiring client within a round trip; Apache RocketMQ lets them wait.
POLLS_END_S = 1.0


class Assign(Protocol):
    """Assigns the queues that the servers name; with `missing_only` only missing topics are queried."""

    async def __call__(self, *, missing_only: bool) -> None: ...


class Consumer(Client):
    """The base of `SimpleConsumer`, `PushConsumer` and `PullConsumer`, and of the consumers of lite topics."""

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoint, group, **options)
        self.group = group
        self._filters = checked_subscriptions(subscriptions)
        self._turn = itertools.count()
        _check_names(group, list(self._filters))

    def _settings(self) -> pb.Settings:
        settings = super()._settings()
        settings.subscription.group.name = self.group
        for topic, wanted in self._filters.items():
            settings.subscription.subscriptions.add(topic=pb.Resource(name=topic), expression=wanted.to_proto())
        return settings

    async def _started(self) -> None:
        await super()._started()
        await self._first_routes(self._filters)

    async def _readable_queue(self, topic: str) -> Queue:
        """Return a queue to query, each in turn, those of failed endpoints last."""
        queues = (await self._routes.get(topic)).checked_readable()
        return queues_to_try(queues, turn=next(self._turn), isolated=self._isolated, count=1)[0]

    async def _assignment(self, topic: str) -> set[Queue]:
        """Query the queues that are assigned to this client; a queue id of -1 stands for all of a broker."""
        queue = await self._readable_queue(topic)
        request = rpc.QueryAssignmentRequest(
            topic=pb.Resource(name=topic), group=self._group_proto(), endpoints=self._access_point.to_proto()
        )
        response = await self._call(queue.endpoints, calls.QUERY_ASSIGNMENT, request)
        check(response.status)
        return {Queue.from_proto(assignment.message_queue, self._access_point) for assignment in response.assignments}

    async def _assign_again(self, assigning: Assigning, assign: Assign) -> None:
        """Query and assign queues at intervals, for ever."""
        while True:
            missing_only = await assigning.pause()
            try:
                await assign(missing_only=missing_only)
            except ClientError as error:
                logger.log(level_of(error), "%s: %s", self.client_id, error)
            except Exception:
                logger.exception("%s: the assignment failed", self.client_id)
                await asyncio.sleep(self._timing.error_pause_s)

    async def _end_polls(self, polls: Polls[Any]) -> None:
        """Have the servers end the polls that wait: their messages arrive first, and can be given back."""
        await asyncio.gather(*(session.retire() for session in self._sessions.values()), polls.end(POLLS_END_S))

    async def _ack_once(self, endpoints: Endpoints, topic: str, views: Sequence[MessageView]) -> list[Refused]:
        response = await self._call(endpoints, calls.ACK_MESSAGE, ack_request(self.group, topic, views))
        return refused_of(views, response)

    async def _change_invisible(self, view: MessageView, seconds: float, *, suspend: bool = False) -> None:
        """Change the invisible duration, and renew the view's receipt handle: the old one may be invalid now.
        `suspend`: for a message that nobody has seen, whose attempt does not count then."""
        request = rpc.ChangeInvisibleDurationRequest(
            group=pb.Resource(name=self.group),
            topic=pb.Resource(name=view.topic),
            receipt_handle=view.receipt_handle,
            invisible_duration=duration(seconds),
            message_id=view.message_id,
            lite_topic=view.lite_topic,
            suspend=suspend,
        )
        response = await self._call(view.endpoints, calls.CHANGE_INVISIBLE_DURATION, request)
        check(response.status)
        if response.receipt_handle:
            view.receipt_handle = response.receipt_handle


def _check_names(group: str, topics: Sequence[str]) -> None:
    try:
        checked_group(group)
        for topic in topics:
            checked_topic(topic)
    except MessagingError as error:
        raise BadRequest(error.code, error.message) from None
    if not topics:
        raise BadRequest(pb.ILLEGAL_TOPIC, "a consumer needs at least one subscription")
