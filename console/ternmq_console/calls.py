"""The calls that operators can make by HTTP: all of our Admin service, and some of other services."""

from typing import Any, NamedTuple

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import service_pb2

# Classes of messages, created from descriptors, which can't be annotated more precisely.
Kind = Any
ADMIN = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
_PUBLISHED = published_pb2.DESCRIPTOR.services_by_name["Admin"]
_MESSAGING = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
SENDING, RECALLING, READING, SEEKING = "AdminSendMessage", "RecallMessage", "PullMessage", "QueryOffset"
SUBSCRIPTIONS, QUERYING = "ListSubscription", "QueryMessage"


class CallKind(NamedTuple):
    """The classes of a call's request and answers."""

    request: Kind
    answer: Kind


def _call_kinds(service: Any, module: Any, names: "frozenset[str] | None" = None) -> dict[str, CallKind]:  # noqa: ANN401 - a descriptor, a module
    return {
        method.name: CallKind(getattr(module, method.input_type.name), getattr(module, method.output_type.name))
        for method in service.methods
        if names is None or method.name in names
    }


CALLS: dict[str, CallKind] = {
    **_call_kinds(ADMIN, admin_pb2),
    **_call_kinds(_PUBLISHED, published_pb2, frozenset({SENDING, SUBSCRIPTIONS, QUERYING})),
    **_call_kinds(_MESSAGING, service_pb2, frozenset({RECALLING, READING, SEEKING})),
}
"""The calls by their names, which are also those of their rules in access control."""
