"""What an activity knows of the call that it answers, whatever front took it."""

from dataclasses import dataclass

from ternmq_common.errors import MessagingError
from ternmq_protos.v2 import definition_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`remaining_s` is how long the client will wait, None for ever; `peer` is its address as `host:port`."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    peer: str = ""
    remaining_s: float | None = None

    def require_client(self) -> str:
        """The client's id, which every call of MessagingService must name."""
        if not self.client_id.strip():
            raise MessagingError(
                definition_pb2.CLIENT_ID_REQUIRED, "the metadata key x-mq-client-id is missing or empty"
            )
        return self.client_id
