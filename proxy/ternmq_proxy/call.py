"""A call as activities see it, the same for every front."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct

from ternmq_common.addresses import DEFAULT_GRPC
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.printable import cut_text, find_name_problem
from ternmq_common.receiving.output_room import AnswerRoom
from ternmq_common.server_settings import ClientListener

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_proxy.access.authentication import UserIdentity

_USUAL_LISTENER = ClientListener(DEFAULT_GRPC)


class Call(Struct, frozen=True, kw_only=True):
    """`remaining_s` is how long the client will wait, None for ever; `peer` is its address as `host:port`; `user` is
    who signed it, "" where nobody has to, and `identity` says by what; `listener`, with the port that is bound, is
    where the call came in; `room` is for the messages that it is answered with. `cancel` ends what waits in a call that
    may wait, None for a front that has others ended otherwise.

    `options` is what the client's metadata asks for beyond the protocol (`overview.md, Metadata`): `queue=...`, the
    queue of its NORMAL messages, or, for pulls, `leave-out=body`, `answer=rows` or both of them with a comma."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    peer: str = ""
    user: str = ""
    identity: "UserIdentity | None" = None
    listener: ClientListener = _USUAL_LISTENER
    remaining_s: float | None = None
    room: AnswerRoom | None = None
    cancel: "Callable[[], object] | None" = None
    options: str = ""

    @property
    def chosen_queue(self) -> str:
        """The queue that the client chose for its NORMAL messages, empty if it chose none."""
        return self.options.removeprefix("queue=") if self.options.startswith("queue=") else ""

    @property
    def leaves_out_bodies(self) -> bool:
        """Whether pulls are to be answered without bodies."""
        return "leave-out=body" in self.options.split(",")

    @property
    def takes_rows(self) -> bool:
        """Whether pulls are to be answered by column (`ternmq_common.pulled_rows`)."""
        return "answer=rows" in self.options.split(",")

    def require_client(self) -> str:
        """Return the client's id, which every call of MessagingService must have. Raises BAD_REQUEST for an id that
        can't be printed."""
        if not self.client_id.strip():
            raise MessagingError(ErrorCode.CLIENT_ID_REQUIRED, "the metadata key x-mq-client-id is missing or empty")
        if problem := find_name_problem(self.client_id):
            raise MessagingError(ErrorCode.BAD_REQUEST, f"the client id (metadata key x-mq-client-id) {problem}")
        return self.client_id

    @property
    def caller_text(self) -> str:
        """The caller for the log: the client, and the user if access control is on."""
        client = f"client {cut_text(self.client_id)}" if self.client_id else "a nameless client"
        return f"{client} of user {cut_text(self.user)} at {self.peer}" if self.user else f"{client} at {self.peer}"


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that the current task serves, for log lines far from the call; None outside of calls."""
