"""Creates AckMessage requests for many messages, and finds out which were refused. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ternmq.connections.endpoints import Endpoints
from ternmq.errors import ClientError, create_error
from ternmq.messages.message_view import MessageView
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

ACK_ENTRIES_MAX = 1000

RefusedAck = tuple[MessageView, ClientError]


class AckKey(NamedTuple):
    """The values that messages share if one request can acknowledge them."""

    endpoints: Endpoints
    topic: str


def group_by_request(views: Iterable[MessageView]) -> dict[AckKey, list[MessageView]]:
    """Group messages by the request that acknowledges them."""
    requests: dict[AckKey, list[MessageView]] = {}
    for view in views:
        requests.setdefault(AckKey(view.endpoints, view.topic), []).append(view)
    return requests


def ack_request(group: str, topic: str, views: Sequence[MessageView]) -> rpc.AckMessageRequest:
    return rpc.AckMessageRequest(
        group=pb.Resource(name=group),
        topic=pb.Resource(name=topic),
        entries=[
            rpc.AckMessageEntry(
                message_id=view.message_id, receipt_handle=view.receipt_handle, lite_topic=view.lite_topic
            )
            for view in views
        ],
    )


def refused_acks(views: Sequence[MessageView], response: rpc.AckMessageResponse) -> list[RefusedAck]:
    """Return the messages whose acknowledgement the server refused; entries are in the order of the request."""
    if len(response.entries) != len(views):
        if response.status.code == pb.OK:
            return []
        error = create_error(response.status.code, response.status.message)
        return [(view, error) for view in views]
    return [
        (view, create_error(entry.status.code, entry.status.message))
        for view, entry in zip(views, response.entries, strict=True)
        if entry.status.code != pb.OK
    ]
