"""A server of the remoting protocol: hands each request to one function, and answers with what that returns."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.event_loop.eager import start_eagerly
from ternmq_rpc.remoting.connection import RemotingConnection
from ternmq_rpc.remoting.served_request import ServedRequest
from ternmq_rpc.serving.connection_server import CONNECTIONS_MAX, ConnectionServer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ternmq_rpc.remoting.commands import Command
    from ternmq_rpc.serving.budgets import ConnectionBudgets
    from ternmq_rpc.tls.opening import PortTls

    Serve = Callable[[ServedRequest], "Coroutine[Any, Any, None] | None"]
    """Answers a request, now or later; or returns what does so, in a task if it waits. It raises nothing."""
    Refuse = Callable[[Command, bool], Command]
    """Returns the answer to a request that is refused: because the server stops, or else by a limit."""


_CANCELLED_AT_ONCE = 100


class RemotingServer(ConnectionServer[RemotingConnection, ServedRequest]):
    """Serves connections of the remoting protocol."""

    def __init__(
        self,
        serve: "Serve",
        refuse: "Refuse",
        *,
        budgets: "ConnectionBudgets | None" = None,
        connections_max: int = CONNECTIONS_MAX,
        tls: "PortTls | None" = None,
        on_closed: "Callable[[object], None] | None" = None,
    ) -> None:
        super().__init__(budgets=budgets, connections_max=connections_max, tls=tls, on_closed=on_closed)
        self.serve = serve
        self._refuse = refuse

    def create_connection(self, listener: str) -> RemotingConnection:
        return RemotingConnection(self, listener)

    def refuse_request(self, command: "Command", *, is_stopping: bool) -> "Command":
        """Return the answer to a request that is not served."""
        return self._refuse(command, is_stopping)

    def start_request(self, request: ServedRequest, serving: "Coroutine[Any, Any, None]") -> None:
        """Begin to serve the request, and go on in a task if that waits."""
        task = request.task = start_eagerly(serving, name="request")
        if task is None:
            request.drop_request()
            return
        self.tasks[task] = request
        task.add_done_callback(self._end_task)

    def cancel_requests(self, requests: "list[ServedRequest]") -> None:
        """End the requests of a closed connection without answers.

        Their tasks end in several turns of the loop, but for those that outlive the connection.
        """
        for request in requests:
            request.drop_request()
        self._cancel_tasks([each.task for each in requests if each.task is not None and not each.outlives_connection])

    def _cancel_tasks(self, tasks: "list[asyncio.Task[None]]") -> None:
        for task in tasks[-_CANCELLED_AT_ONCE:]:
            task.cancel()
        del tasks[-_CANCELLED_AT_ONCE:]
        if tasks:
            asyncio.get_running_loop().call_soon(self._cancel_tasks, tasks)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        request = self.tasks.pop(task)
        # Its context has the call, which can cancel it: a cycle, which only the garbage collector would find.
        request.task = None
        request.drop_request()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # the loop's exception handler logs it: `serve` raises nothing
