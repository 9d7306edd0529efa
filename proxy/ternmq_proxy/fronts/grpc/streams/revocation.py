"""What becomes of calls under way when their user may no more: they are cancelled, and say why."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_rpc.grpc_stream.served_call import ServedCall


def cancel_call(served: "ServedCall") -> None:
    """End what waits in it."""
    if served.task is not None:
        served.task.cancel()
