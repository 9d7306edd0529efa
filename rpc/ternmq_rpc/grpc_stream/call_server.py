"""A gRPC server of many methods, also for clients that are not ours; clients are not trusted.

An idle connection keeps no buffer and no timer, and its header table is a list; a call has a task only if it waits.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ternmq_common.event_loop.eager import start_eagerly
from ternmq_rpc.grpc_http2.headers.header_reader import HeaderReader
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_http2.timeouts import TIMEOUT
from ternmq_rpc.grpc_stream.call_connection import CallConnection
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.serving.connection_server import CONNECTIONS_MAX, ConnectionServer

if TYPE_CHECKING:
    from ternmq_rpc.serving.budgets import ConnectionBudgets
    from ternmq_rpc.tls.opening import PortTls

_log = logging.getLogger(__name__)

FindMethod = Callable[[str], ServedMethod | None]


class CallServer(ConnectionServer[CallConnection, ServedCall]):
    """Serves the methods that `find` returns for a path. Calls have those of their headers that are in `headers`."""

    def __init__(
        self,
        find: FindMethod,
        *,
        headers: Sequence[str] = (),
        budgets: "ConnectionBudgets | None" = None,
        connections_max: int = CONNECTIONS_MAX,
        tls: "PortTls | None" = None,
        on_closed: "Callable[[object], None] | None" = None,
    ) -> None:
        """`on_closed` is called with the note of each connection that was closed, if it has one."""
        super().__init__(budgets=budgets, connections_max=connections_max, tls=tls, on_closed=on_closed)
        self.find = find
        self.headers = HeaderReader(("content-type", TIMEOUT, *headers))

    def create_connection(self, listener: str) -> CallConnection:
        return CallConnection(self, listener)

    def start_call(self, call: ServedCall) -> asyncio.Task[None] | None:
        """Begin to serve a call; return the task that continues it, None if it is done."""
        task = start_eagerly(self._run_call(call), name="call")
        if task is not None:
            self.tasks[task] = call
            task.add_done_callback(call.task_ended)
        return task

    async def _run_call(self, call: ServedCall) -> None:
        try:
            assert call.method is not None
            await call.method.serve(call)
            if not call.is_ended_here and not call.is_concluded:
                await call.end_stream()
        except CallRefused as refused:
            self._refuse_call(call, refused.status, str(refused))
        except StreamBroken as broken:
            _log.debug("a call of %s: %s", call.peer, broken)
        except Exception:  # noqa: BLE001 - the outermost of this call
            _log.exception("a call of %s failed", call.peer)
            self._refuse_call(call, GrpcStatus.UNKNOWN, "unexpected error; the log of the server has it")

    def _refuse_call(self, call: ServedCall, status: GrpcStatus, text: str) -> None:
        call.task = None  # it ends by itself
        call.abort_stream(text, status=status)
