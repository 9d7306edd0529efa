"""The one error type that crosses layers, and the status codes that it may have.

The codes have the names and numbers of `apache.rocketmq.v2.Code`. Clients sort errors by them and call a number they
don't know "unsupported", so none is ever invented here. Each front maps them to what its protocol has.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """A status code of the protocol, the outcome of a request."""

    CODE_UNSPECIFIED = 0
    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    INVALID_CLIENT_PROPERTIES = 40021
    UNAUTHORIZED = 40100
    PAYMENT_REQUIRED = 40200
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    REQUEST_TIMEOUT = 40800
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    REQUEST_HEADER_FIELDS_TOO_LARGE = 43100
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_ERROR = 50000
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    UNSUPPORTED = 50500
    VERSION_UNSUPPORTED = 50501
    VERIFY_FIFO_MESSAGE_UNSUPPORTED = 50502
    FAILED_TO_CONSUME_MESSAGE = 60000


RETRYABLE = frozenset(
    {
        ErrorCode.TOO_MANY_REQUESTS,
        ErrorCode.INTERNAL_ERROR,
        ErrorCode.INTERNAL_SERVER_ERROR,
        ErrorCode.HA_NOT_AVAILABLE,
        ErrorCode.PROXY_TIMEOUT,
        ErrorCode.MASTER_PERSISTENCE_TIMEOUT,
        ErrorCode.SLAVE_PERSISTENCE_TIMEOUT,
    }
)


class MessagingError(Exception):
    """A request that can't be met: a status code of the protocol and a sentence for people.

    The sentence says what was wrong, what is allowed and, where it isn't plain, what to do.
    """

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE

    def __str__(self) -> str:
        return f"{code_name(self.code)}: {self.message}"


class StartupError(Exception):
    """The process can't start with these settings or files; the text is one line that says what to do."""


def code_name(code: int) -> str:
    """The name of a code, `TOPIC_NOT_FOUND` for 40402; a number that the protocol does not have as it is."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
