"""The base of consumers: a group, subscriptions, assignments, and the settling of deliveries."""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any, Protocol, Unpack

from ternmq.client import Client
from ternmq.connections import connection as calls
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue, choose_queues
from ternmq.consuming.ack_requests import RefusedAck, ack_request, refused_acks
from ternmq.consuming.queue_assignments import QueueAssignments
from ternmq.consuming.receive_polls import ReceivePolls
from ternmq.errors import BadRequest, ClientError, check_status
from ternmq.messages.filters import Subscriptions, check_subscriptions
from ternmq.messages.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.times.wire_time import to_duration
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

# A server of TernMQ ends the polls of a retiring client within a round trip; Apache RocketMQ lets them wait.
POLLS_END_S = 1.0


class AssignQueues(Protocol):
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
        self._filters = check_subscriptions(subscriptions)
        self._turn = itertools.count()
        _check_names(group, list(self._filters))

    def _create_settings(self) -> pb.Settings:
        settings = super()._create_settings()
        settings.subscription.group.name = self.group
        for topic, wanted in self._filters.items():
            settings.subscription.subscriptions.add(topic=pb.Resource(name=topic), expression=wanted.to_proto())
        return settings

    async def _start_work(self) -> None:
        await super()._start_work()
        await self._fetch_first_routes(self._filters)

    async def _readable_queue(self, topic: str) -> RouteQueue:
        """Return a queue to query, each in turn, those of failed endpoints last."""
        queues = (await self._routes.get_route(topic)).require_readable()
        return choose_queues(queues, turn=next(self._turn), isolated=self._isolated, count=1)[0]

    async def _query_assignment(self, topic: str) -> set[RouteQueue]:
        """Query the queues that are assigned to this client; a queue id of -1 means all of a broker."""
        queue = await self._readable_queue(topic)
        request = rpc.QueryAssignmentRequest(
            topic=pb.Resource(name=topic), group=self._group_proto(), endpoints=self._access_point.to_proto()
        )
        response = await self._call_endpoint(queue.endpoints, calls.QUERY_ASSIGNMENT, request)
        check_status(response.status)
        return {
            RouteQueue.from_proto(assignment.message_queue, self._access_point) for assignment in response.assignments
        }

    async def _assign_forever(self, assigning: QueueAssignments, assign: AssignQueues) -> None:
        """Query and assign queues at intervals, for ever."""
        while True:
            missing_only = await assigning.wait_due()
            try:
                await assign(missing_only=missing_only)
            except ClientError as error:
                logger.log(log_level_of(error), "%s: %s", self.client_id, error)
            except Exception:
                logger.exception("%s: the assignment failed", self.client_id)
                await asyncio.sleep(self._timing.error_pause_s)

    async def _end_polls(self, polls: ReceivePolls[Any]) -> None:
        """Have the servers end the polls that wait: their messages arrive first, and can be given back."""
        await asyncio.gather(
            *(session.end_output() for session in self._sessions.values()), polls.end_polls(POLLS_END_S)
        )

    async def _ack_once(self, endpoints: Endpoints, topic: str, views: Sequence[MessageView]) -> list[RefusedAck]:
        response = await self._call_endpoint(endpoints, calls.ACK_MESSAGE, ack_request(self.group, topic, views))
        return refused_acks(views, response)

    async def _change_invisible_duration(self, view: MessageView, seconds: float, *, suspend: bool = False) -> None:
        """Change the invisible duration, and renew the view's receipt handle: the old one may be invalid now.
        `suspend`: the application has not seen the message, so the attempt does not count."""
        request = rpc.ChangeInvisibleDurationRequest(
            group=pb.Resource(name=self.group),
            topic=pb.Resource(name=view.topic),
            receipt_handle=view.receipt_handle,
            invisible_duration=to_duration(seconds),
            message_id=view.message_id,
            lite_topic=view.lite_topic,
            suspend=suspend,
        )
        response = await self._call_endpoint(view.endpoints, calls.CHANGE_INVISIBLE_DURATION, request)
        check_status(response.status)
        if response.receipt_handle:
            view.receipt_handle = response.receipt_handle


def _check_names(group: str, topics: Sequence[str]) -> None:
    try:
        check_group_name(group)
        for topic in topics:
            check_topic_name(topic)
    except MessagingError as error:
        raise BadRequest(error.code, error.message) from None
    if not topics:
        raise BadRequest(pb.ILLEGAL_TOPIC, "a consumer needs at least one subscription")
