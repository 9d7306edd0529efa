"""The calls of the published service that nothing here can carry out (`operations/admin/unserved.py`)."""

from typing import TYPE_CHECKING

from ternmq_proxy.operations.admin import unserved

if TYPE_CHECKING:
    from ternmq_protos.v2.admin_pb2 import (
        DeleteSubscriptionRequest,
        PrintThreadStackTraceRequest,
        VerifyMessageRequest,
    )
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def delete_subscription(request: "DeleteSubscriptionRequest", call: "Call", services: "Services") -> None:
    """Refuse it."""
    await unserved.delete_subscription(request.group.name, call, services)


async def print_thread_stack_trace(request: "PrintThreadStackTraceRequest", call: "Call", services: "Services") -> None:
    """Refuse it."""
    await unserved.print_stack_trace(request.group.name, call, services)


async def verify_message(request: "VerifyMessageRequest", call: "Call", services: "Services") -> None:
    """Refuse it."""
    await unserved.verify_message(request.group.name, call, services)
