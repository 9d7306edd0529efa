"""Tasks that are with a worker, from the push consumer's listener until they are acknowledged or given back.

Taskiq reports that a task is done by calling `ack`. It does not report that it never will: a task with manual
acknowledgement may end without one, and another middleware may fail. So a middleware, which taskiq calls in the asyncio
task of the execution, watches the end of that asyncio task. Deliveries that are open at shutdown were never started, or
still run when taskiq stops waiting.
"""

import asyncio
from collections import defaultdict, deque

from taskiq import AckableMessage, TaskiqMessage, TaskiqMiddleware

from ternmq.hooks import ConsumeResult
from ternmq.messages.message_view import MessageView


class TaskDelivery:
    """One delivery of one task; `settled` is the listener's result."""

    def __init__(self, view: MessageView) -> None:
        self.task_id = view.keys[0] if view.keys else ""
        self.settled: asyncio.Future[ConsumeResult] = asyncio.get_running_loop().create_future()
        self.message = AckableMessage(data=view.body, ack=self._acknowledge)

    def give_back(self) -> None:
        """Deliver it again after the group's backoff, unless it is acknowledged."""
        if not self.settled.done():
            self.settled.set_result(ConsumeResult.FAILURE)

    async def _acknowledge(self) -> None:
        if not self.settled.done():
            self.settled.set_result(ConsumeResult.SUCCESS)


class TaskDeliveries:
    """The deliveries of one worker. `_open`: all that aren't settled; `_waiting`: those that weren't started, by the
    ids of their tasks; after a redelivery a task may have two."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[TaskDelivery] = asyncio.Queue()
        self._open: set[TaskDelivery] = set()
        self._closed = False
        self._waiting: defaultdict[str, deque[TaskDelivery]] = defaultdict(deque)

    async def consume_message(self, view: MessageView) -> ConsumeResult:
        """Handle a message as the push consumer's listener."""
        if self._closed:
            return ConsumeResult.FAILURE
        delivery = TaskDelivery(view)
        self._open.add(delivery)
        self._waiting[delivery.task_id].append(delivery)
        self._arrived.put_nowait(delivery)
        try:
            return await delivery.settled
        finally:
            self._open.discard(delivery)
            self._forget_delivery(delivery)

    async def next_message(self) -> AckableMessage:
        """Return the next message for taskiq."""
        return (await self._arrived.get()).message

    def begin_execution(self, task_id: str) -> TaskDelivery | None:
        """Return the delivery of a task that is about to be executed; None if it came in another way."""
        waiting = self._waiting.get(task_id)
        return waiting.popleft() if waiting else None

    def close(self) -> None:
        """Give back all open deliveries, and those that arrive later."""
        self._closed = True
        for delivery in list(self._open):
            delivery.give_back()

    def _forget_delivery(self, delivery: TaskDelivery) -> None:
        waiting = self._waiting.get(delivery.task_id, deque())
        if delivery in waiting:  # it was never started
            waiting.remove(delivery)
        if not waiting:
            self._waiting.pop(delivery.task_id, None)


class ExecutionWatch(TaskiqMiddleware):
    """A middleware that notices the end of each execution."""

    def __init__(self, deliveries: TaskDeliveries) -> None:
        super().__init__()
        self._deliveries = deliveries

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        """Called by taskiq in the asyncio task of the execution."""
        delivery = self._deliveries.begin_execution(message.task_id)
        execution = asyncio.current_task()
        if delivery is not None and execution is not None:
            execution.add_done_callback(lambda _: delivery.give_back())
        return message
