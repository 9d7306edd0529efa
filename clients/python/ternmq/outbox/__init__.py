"""Messages that are sent if, and only if, a database transaction commits: a transactional outbox for SQLAlchemy 2.

    outbox = Outbox(Base.metadata)                    # a table among those of the application

    with Session(engine) as session, session.begin():
        session.add(Order(id=7))
        outbox.add(session, Message("orders", b"7"))  # committed with the order, or rolled back with it

    asyncio.run(OutboxRelay(outbox, engine, "127.0.0.1:8081").run())  # in a process of its own, or several

    inbox = Inbox(Base.metadata)                      # at the consumer

    with Session(engine) as session, session.begin():
        if inbox.first_time(session, view, "billing"):
            session.add(Bill(order=view.body))        # once for each message, however often it is delivered

Ids         each message gets its id when it is added, and keeps it: a relay that died after sending sends it again
            under the same id, by which an inbox recognizes it
Promise     each committed row is sent at least once; the work in the transaction of an inbox is done once
Order       rows of one message group are sent in the order of their ids, one after the other, also by several relays
Databases   PostgreSQL (several relays share the rows by SKIP LOCKED), SQLite (one relay). Others: one relay, not tested
"""

from ternmq_common.installing import missing_extra_error

try:
    from ternmq.outbox.inbox import Inbox
    from ternmq.outbox.relay import OutboxRelay
    from ternmq.outbox.table import Outbox
except ModuleNotFoundError as error:
    raise missing_extra_error(error, "ternmq.outbox", "outbox") from error

__all__ = ["Inbox", "Outbox", "OutboxRelay"]
