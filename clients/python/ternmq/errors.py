"""The errors of the library, in the families of the official clients.

Every error is a `ClientError` with a status code of the protocol and a sentence; `retryable` says whether the same
call may succeed later. Errors of the network name the endpoint and, since no server answered, mostly have no code (0).

    try:
        await producer.send(message)
    except ternmq.NotFound as error:
        print(error.code, error.message)
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.printable import escape_line
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq.messages.message import SendReceipt
    from ternmq.messages.message_view import MessageView


# The reason quotes parts of the body, so it is cut.
REASON_SHOWN_MAX = 500


class ClientError(MessagingError):
    """The base of all errors of this library."""


class BadRequest(ClientError):
    """The request is malformed or breaks a rule of the topic or group; repeating it can't help."""


class UndecodableBody(BadRequest):
    """The body of the message `message_id` can't be decoded: broken gzip, not JSON, or not of the model."""

    def __init__(self, message_id: str, reason: str) -> None:
        self.message_id = message_id
        super().__init__(
            pb.MESSAGE_CORRUPTED, f"the body of {escape_line(message_id)} {escape_line(reason[:REASON_SHOWN_MAX])}"
        )


class Unauthorized(ClientError):
    """Credentials are missing or wrong, or don't allow this; the same call fails until either changes."""


class PaymentRequired(ClientError):
    """The account of this client has to be paid."""


class Forbidden(ClientError):
    """The topic, group or user doesn't allow this."""


class NotFound(ClientError):
    """The topic, group, message or offset doesn't exist."""


class PayloadTooLarge(ClientError):
    """The body is longer than the server takes."""


class PayloadEmpty(ClientError):
    """A message has no body."""


class RequestHeaderFieldsTooLarge(ClientError):
    """There are too many, or too long properties."""


class TooManyRequests(ClientError):
    """The server asks to slow down."""


class LiteTopicQuotaExceeded(ClientError):
    """There is no room for one more lite topic."""


class LiteSubscriptionQuotaExceeded(ClientError):
    """There is no room for one more subscription to a lite topic."""


class InternalError(ClientError):
    """The server failed."""


class ProxyTimeout(ClientError):
    """A server behind the one that was called didn't answer in time; the request may have been carried out."""


class Unsupported(ClientError):
    """The server doesn't know the call, or answered a code that this library doesn't know."""


class NotRunning(ClientError):
    """The client was used before its start or after its close."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.CODE_UNSPECIFIED, message)


class TransportError(ClientError):
    """No answer came from `endpoint`; whether it handled the request is unknown.

    `connected`: the server itself ended the call, so the connection may still be good.
    """

    def __init__(
        self,
        endpoint: str,
        details: str,
        *,
        retryable: bool = True,
        code: pb.Code = pb.CODE_UNSPECIFIED,
        connected: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.connected = connected
        self._retryable = retryable
        super().__init__(code, f"{endpoint}: {details}")

    @property
    def retryable(self) -> bool:
        return self._retryable

    def __str__(self) -> str:
        return self.message


class ConnectionFailed(TransportError):
    """The endpoint can't be reached, or the connection broke."""


class TlsFailed(ConnectionFailed):
    """Client and server don't agree on TLS: an untrusted certificate, another name, or one of both speaks plain
    text."""

    def __init__(self, endpoint: str, details: str) -> None:
        super().__init__(endpoint, details, retryable=False)


class DeadlineExceeded(TransportError):
    """The endpoint didn't answer in time."""

    def __init__(self, endpoint: str, details: str) -> None:
        super().__init__(endpoint, details, code=pb.REQUEST_TIMEOUT)


class TransactionRefused(BadRequest):
    """The server refuses to end a transaction in this way, for good.

    It was ended in the other way (by an answer of a checker, or by an operator), it was given up after too many checks,
    or it isn't known. After a refused commit the message is not delivered; after a refused rollback it may have been.
    """


class TransactionOutcomeUnknown(ClientError):
    """No answer confirms that a transaction was ended as requested; the last failure is the cause.

    The outcome is open: the server may have ended it and its answer was lost, or it hasn't, and will ask a checker.
    `retryable` says whether repeating the request may help.
    """

    def __init__(self, transaction_id: str, resolution: str, error: ClientError) -> None:
        self.transaction_id = transaction_id
        self._retryable = error.retryable
        super().__init__(
            error.code,
            f"whether the {resolution} of transaction {transaction_id} arrived is open; if it didn't, the server will "
            f"ask a checker. The last failure: {error}",
        )

    @property
    def retryable(self) -> bool:
        return self._retryable

    def __str__(self) -> str:
        return self.message


class OffsetFileError(ClientError):
    """The file in which a broadcasting consumer keeps its progress can't be read or written."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.CODE_UNSPECIFIED, message)


class UnusableFile(ClientError):
    """A file with credentials, certificates or a key can't be read, or has another content than it should."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.CODE_UNSPECIFIED, message)

    def __str__(self) -> str:
        return self.message


class SendManyError(ClientError):
    """Some messages of one `send_many` weren't stored, or it is unknown whether they were.

    `outcomes` has one item per message in the order of the call: a `SendReceipt`, or the error of that message.
    """

    def __init__(self, outcomes: "Sequence[SendReceipt | ClientError]") -> None:
        self.outcomes = tuple(outcomes)
        self.errors = tuple(outcome for outcome in self.outcomes if isinstance(outcome, ClientError))
        first = self.errors[0]
        super().__init__(first.code, f"{len(self.errors)} of {len(self.outcomes)} messages failed; the first: {first}")


class AckError(ClientError):
    """Some acknowledgements were refused; `refused` has each such message with its error."""

    def __init__(self, refused: "Sequence[tuple[MessageView, ClientError]]") -> None:
        self.refused = tuple(refused)
        first = self.refused[0][1]
        super().__init__(first.code, f"{len(self.refused)} acknowledgements were refused; the first: {first}")


def is_away(error: object) -> bool:
    """Return whether a server, or the broker behind it, couldn't be reached: it may be restarting."""
    if isinstance(error, TransportError):
        return error.retryable
    return isinstance(error, ClientError) and error.code == pb.HA_NOT_AVAILABLE


_OTHER_FAMILIES: dict[int, type[ClientError]] = {
    pb.UNAUTHORIZED: Unauthorized,
    pb.PAYMENT_REQUIRED: PaymentRequired,
    pb.FORBIDDEN: Forbidden,
    pb.NOT_FOUND: NotFound,
    pb.MESSAGE_NOT_FOUND: NotFound,
    pb.TOPIC_NOT_FOUND: NotFound,
    pb.CONSUMER_GROUP_NOT_FOUND: NotFound,
    pb.OFFSET_NOT_FOUND: NotFound,
    pb.REQUEST_TIMEOUT: ProxyTimeout,
    pb.PAYLOAD_TOO_LARGE: PayloadTooLarge,
    pb.MESSAGE_BODY_TOO_LARGE: PayloadTooLarge,
    pb.MESSAGE_BODY_EMPTY: PayloadEmpty,
    pb.PRECONDITION_FAILED: BadRequest,
    pb.TOO_MANY_REQUESTS: TooManyRequests,
    pb.LITE_TOPIC_QUOTA_EXCEEDED: LiteTopicQuotaExceeded,
    pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: LiteSubscriptionQuotaExceeded,
    pb.REQUEST_HEADER_FIELDS_TOO_LARGE: RequestHeaderFieldsTooLarge,
    pb.MESSAGE_PROPERTIES_TOO_LARGE: RequestHeaderFieldsTooLarge,
    pb.INTERNAL_ERROR: InternalError,
    pb.INTERNAL_SERVER_ERROR: InternalError,
    pb.HA_NOT_AVAILABLE: InternalError,
    pb.PROXY_TIMEOUT: ProxyTimeout,
    pb.MASTER_PERSISTENCE_TIMEOUT: ProxyTimeout,
    pb.SLAVE_PERSISTENCE_TIMEOUT: ProxyTimeout,
}


def create_error(code: pb.Code, message: str) -> ClientError:
    """Create the typed error for a status that isn't a success."""
    family = _OTHER_FAMILIES.get(code)
    if family is None:
        family = BadRequest if pb.BAD_REQUEST <= code < pb.UNAUTHORIZED else Unsupported
    return family(code, message)


def check_status(status: pb.Status) -> None:
    """Raise the typed error of a status other than OK."""
    if status.code != pb.OK:
        raise create_error(status.code, status.message)
