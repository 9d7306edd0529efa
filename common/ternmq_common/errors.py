"""The one error type that crosses layers, and the status codes that it may carry.

The codes are those of `ternmq_protos.v2.definition_pb2.Code`; clients sort errors by them (and call a number that they
don't know "unsupported"), so none is ever invented here.
"""

from typing import TYPE_CHECKING

from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import Code

RETRYABLE = frozenset(
    {
        definition_pb2.TOO_MANY_REQUESTS,
        definition_pb2.INTERNAL_ERROR,
        definition_pb2.INTERNAL_SERVER_ERROR,
        definition_pb2.HA_NOT_AVAILABLE,
        definition_pb2.PROXY_TIMEOUT,
        definition_pb2.MASTER_PERSISTENCE_TIMEOUT,
        definition_pb2.SLAVE_PERSISTENCE_TIMEOUT,
    }
)


class MessagingError(Exception):
    """A request that can't be met: a status code of the protocol and a sentence for a person.

    The sentence says what was wrong, what is allowed and, where it isn't plain, what to do.
    """

    def __init__(self, code: "Code", message: str) -> None:
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
    """The stack can't start as it was asked to; the text is one line that says what to do."""


def code_name(code: int) -> str:
    """`TOPIC_NOT_FOUND` for 40402; a number that the protocol doesn't have as it is."""
    try:
        return definition_pb2.Code.Name(code)
    except ValueError:
        return str(code)
