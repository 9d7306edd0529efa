"""A broker for taskiq, which runs functions of an application in workers.

    broker = TernmqBroker("127.0.0.1:8081")

    @broker.task
    async def send_invoice(order: int) -> None: ...

    await send_invoice.kiq(7)
    await send_invoice.kicker().with_labels(delay=60).kiq(7)      # seconds; kept by the server, not by a scheduler

and `taskiq worker app:broker` runs them.
"""

from ternmq_common.installing import missing_extra_error

try:
    from ternmq.integrations.taskiq.broker import TernmqBroker
except ModuleNotFoundError as error:
    raise missing_extra_error(error, "ternmq.integrations.taskiq", "taskiq") from error

__all__ = ["TernmqBroker"]
