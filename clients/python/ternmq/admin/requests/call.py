"""One call of the admin service, independent of how it is sent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

SERVICE = "ternmq.admin.v1.Admin"
CALL_TIMEOUT_S = 10.0

ValueT = TypeVar("ValueT")


class AdminCall(Generic[ValueT]):
    """A call. Its name is that of the request's type: a ListTopicsRequest is sent by ListTopics, which answers with a
    ListTopicsResponse. `read` creates the value from an answer whose status is OK. The caller should wait for
    `at_least_s`, since some calls are a lot of work."""

    # Not a dataclass: creating one takes a millisecond, and a command has a hundred in all.
    __slots__ = ("at_least_s", "name", "read", "request")

    def __init__(self, request: "Message", read: Callable[[Any], ValueT], *, at_least_s: float = 0.0) -> None:
        self.name = type(request).__name__.removesuffix("Request")
        self.request, self.read = request, read
        self.at_least_s = at_least_s

    @property
    def response(self) -> Any:  # noqa: ANN401 - of any call
        """The type of the answer."""
        from ternmq_protos.admin_v1 import admin_pb2  # takes long, and is imported where the request was created

        return getattr(admin_pb2, f"{self.name}Response")

    def read_value(self, answer: Any) -> ValueT:  # noqa: ANN401 - of any call
        """Return the value of an answer; ValueError if the answer makes no sense, such as a time in the year
        300,000."""
        try:
            return self.read(answer)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"the answer of {self.name} makes no sense: {error}") from None


def read_nothing(answer: object) -> None:
    """Read an answer that has only a status."""
    del answer
