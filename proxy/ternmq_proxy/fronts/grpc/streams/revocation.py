"""Ends running calls whose user lost a right: they are cancelled, and answer why."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_rpc.serving.call_face import CallFace


def cancel_call(served: "CallFace") -> None:
    """End what waits in it."""
    if served.task is not None:
        served.task.cancel()
