"""The calls of the published service that nothing here can carry out. Each is refused whole, whatever it asks for."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def delete_subscription(request: object, call: "Call", services: "Services") -> None:
    """A subscription is what a client says while it is here, and what was deleted would be back with its next
    receive."""
    del request, call, services
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "DeleteSubscription is not served: subscriptions are not kept, each is there as long as a client of the group "
        "says so; end the group's clients, or delete the group with `ternmq group delete`",
    )


async def print_thread_stack_trace(request: object, call: "Call", services: "Services") -> None:
    """Results of commands that clients send on Telemetry are passed over (`overview.md, Sessions`)."""
    del request, call, services
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "PrintThreadStackTrace is not served: answers of clients to commands on their Telemetry stream are not routed "
        "back to the caller",
    )


async def verify_message(request: object, call: "Call", services: "Services") -> None:
    """As `print_thread_stack_trace`."""
    del request, call, services
    raise MessagingError(
        ErrorCode.NOT_IMPLEMENTED,
        "VerifyMessage is not served: answers of clients to commands on their Telemetry stream are not routed back to "
        "the caller",
    )
