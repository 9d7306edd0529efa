"""Calls of the published admin service that this server does not support; each is refused."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.access.needs import GROUP_GET, GROUP_UPDATE

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def delete_subscription(group: str, call: "Call", services: "Services") -> None:
    """Refuse it: a subscription is what a client says while it is here, and what was deleted would be back with its
    next receive."""
    services.access.require_right("DeleteSubscription", call, GROUP_UPDATE, group)
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "DeleteSubscription is not served: subscriptions are not kept, each is there as long as a client of the group "
        "says so; end the group's clients, or delete the group with `ternmq group delete`",
    )


async def print_stack_trace(group: str, call: "Call", services: "Services") -> None:
    """Refuse it: results of commands that clients send on Telemetry are passed over (`overview.md, Sessions`)."""
    services.access.require_right("PrintThreadStackTrace", call, GROUP_GET, group)
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "PrintThreadStackTrace is not served: answers of clients to commands on their Telemetry stream are not routed "
        "back to the caller",
    )


async def verify_message(group: str, call: "Call", services: "Services") -> None:
    """Refuse it, as `print_stack_trace`."""
    services.access.require_right("VerifyMessage", call, GROUP_UPDATE, group)
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "VerifyMessage is not served: answers of clients to commands on their Telemetry stream are not routed back to "
        "the caller",
    )
