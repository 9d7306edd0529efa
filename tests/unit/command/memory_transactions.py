"""Transactions in memory, behind the calls of the admin service about them."""

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.messaging_server import message

OK = pb.Status(code=pb.OK, message="OK")
T0_MS = 1_785_585_600_000  # 2026-08-01T12:00:00Z; one transaction each minute
ENDS = {pb.COMMIT: admin_pb2.COMMITTED, pb.ROLLBACK: admin_pb2.ROLLED_BACK}


class MemoryTransactions:
    """`open` has them by id, in the order in which they were begun; a list looks at `page_size` of them at a time.

    `ids` of `put` are like those of the broker. Those in `unavailable` are refused in another way than unknown ones.
    """

    def __init__(self) -> None:
        self.open: dict[str, admin_pb2.GetTransactionResponse] = {}
        self.page_size = 2
        self.lists: list[admin_pb2.ListTransactionsRequest] = []
        self.resolved: list[tuple[str, str]] = []
        self.unavailable: set[str] = set()

    def put(
        self, number: int, *, topic: str = "payments", discarded: bool = False, body: bytes | None = None
    ) -> admin_pb2.Transaction:
        """A transaction whose message has the id `id-N` and the body `body N`."""
        half = message(body or f"body {number}", message_id=f"id-{number}", keys=(f"k{number}",), tag="paid",
                       properties={"region": "eu"})  # fmt: skip
        half.topic.name = topic
        transaction = admin_pb2.Transaction(
            transaction_id=f"id-{number}@broker-0@{number:x}",
            topic=topic,
            message_id=f"id-{number}",
            state=admin_pb2.DISCARDED if discarded else admin_pb2.PENDING,
            checks=15 if discarded else 2,
            sender="producer-1",
        )
        transaction.stored.FromMilliseconds(T0_MS + number * 60_000)
        if not discarded:
            transaction.next_check.FromMilliseconds(T0_MS + number * 60_000 + 66_250)
        answer = admin_pb2.GetTransactionResponse(status=OK, transaction=transaction, message=half)
        self.open[transaction.transaction_id] = answer
        return answer.transaction

    def ListTransactions(  # noqa: N802
        self, request: admin_pb2.ListTransactionsRequest
    ) -> admin_pb2.ListTransactionsResponse:
        self.lists.append(request)
        every = [answer.transaction for answer in self.open.values()]
        start = int(request.page or 0)
        end = start + self.page_size
        found = [
            transaction
            for transaction in every[start:end]
            if transaction.state == request.state
            and request.topic in ("", transaction.topic)
            and request.message_id in ("", transaction.message_id)
        ]
        following = str(end) if end < len(every) else ""
        return admin_pb2.ListTransactionsResponse(status=OK, transactions=found, next_page=following)

    def GetTransaction(self, request: admin_pb2.GetTransactionRequest) -> admin_pb2.GetTransactionResponse:  # noqa: N802
        unknown = admin_pb2.GetTransactionResponse(status=self._unknown(request.transaction_id))
        return self.open.get(request.transaction_id, unknown)

    def ResolveTransaction(  # noqa: N802
        self, request: admin_pb2.ResolveTransactionRequest
    ) -> admin_pb2.ResolveTransactionResponse:
        if request.transaction_id not in self.open or request.transaction_id in self.unavailable:
            return admin_pb2.ResolveTransactionResponse(status=self._unknown(request.transaction_id))
        self.resolved.append((request.transaction_id, pb.TransactionResolution.Name(request.resolution)))
        transaction = self.open[request.transaction_id].transaction
        transaction.state = ENDS[request.resolution]
        transaction.ClearField("next_check")
        return admin_pb2.ResolveTransactionResponse(status=OK, transaction=transaction)

    def _unknown(self, transaction_id: str) -> pb.Status:
        if transaction_id in self.unavailable:
            return pb.Status(code=pb.INTERNAL_SERVER_ERROR, message="the disk is full")
        return pb.Status(code=pb.INVALID_TRANSACTION_ID, message=f"no transaction {transaction_id}")
