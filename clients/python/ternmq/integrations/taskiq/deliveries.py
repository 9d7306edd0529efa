"""Tasks that are with a worker, from the push consumer's listener until they are acknowledged or given back.

Taskiq says when a task is done by calling `ack`. That it will not do so it doesn't say: a task that acknowledges by
hand may end without, and another middleware may fail. So a middleware, which taskiq calls in the asyncio task that is
this execution, watches that task's end. What is open when the broker is shut down was never begun, or is still running
when taskiq doesn't wait any longer.
"""

import asyncio
from collections import defaultdict, deque

from taskiq import AckableMessage, TaskiqMessage, TaskiqMiddleware

from ternmq.hooks import ConsumeResult
from ternmq.message_view import MessageView


class Delivery:
    """One delivery of one task; `settled` is what the listener answers."""

    def __init__(self, view: MessageView) -> None:
        self.task_id = view.keys[0] if view.keys else ""
        self.settled: asyncio.Future[ConsumeResult] = asyncio.get_running_loop().create_future()
        self.message = AckableMessage(data=view.body, ack=self._ack)

    def give_back(self) -> None:
        """Unless it is acknowledged: deliver it again after the group's back-off."""
        if not self.settled.done():
            self.settled.set_result(ConsumeResult.FAILURE)

    async def _ack(self) -> None:
        if not self.settled.done():
            self.settled.set_result(ConsumeResult.SUCCESS)


class Deliveries:
    """Those of one worker: `_open` are all that aren't settled, `_waiting` by the ids of their tasks those of them that
    weren't begun; after a redelivery there may be two of one task."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self._open: set[Delivery] = set()
        self._closed = False
        self._waiting: defaultdict[str, deque[Delivery]] = defaultdict(deque)

    async def consume(self, view: MessageView) -> ConsumeResult:
        """The push consumer's listener."""
        if self._closed:
            return ConsumeResult.FAILURE
        delivery = Delivery(view)
        self._open.add(delivery)
        self._waiting[delivery.task_id].append(delivery)
        self._arrived.put_nowait(delivery)
        try:
            return await delivery.settled
        finally:
            self._open.discard(delivery)
            self._forget(delivery)

    async def next(self) -> AckableMessage:
        """The next one for taskiq."""
        return (await self._arrived.get()).message

    def begun(self, task_id: str) -> Delivery | None:
        """The delivery of a task that is about to be executed; None for one that came in another way."""
        waiting = self._waiting.get(task_id)
        return waiting.popleft() if waiting else None

    def close(self) -> None:
        """Give back all that is open, and what comes."""
        self._closed = True
        for delivery in list(self._open):
            delivery.give_back()

    def _forget(self, delivery: Delivery) -> None:
        waiting = self._waiting.get(delivery.task_id, deque())
        if delivery in waiting:  # it never began
            waiting.remove(delivery)
        if not waiting:
            self._waiting.pop(delivery.task_id, None)


class Endings(TaskiqMiddleware):
    """Sees the end of each execution."""

    def __init__(self, deliveries: Deliveries) -> None:
        super().__init__()
        self._deliveries = deliveries

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        """Taskiq calls it in the asyncio task of the execution."""
        delivery = self._deliveries.begun(message.task_id)
        execution = asyncio.current_task()
        if delivery is not None and execution is not None:
            execution.add_done_callback(lambda _: delivery.give_back())
        return message
