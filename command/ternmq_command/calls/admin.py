"""The command's client of the admin service, by which it sends the calls of `ternmq.admin`."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from ternmq.admin.requests.call import SERVICE
from ternmq_command.calls.service_calls import ServiceCalls

if TYPE_CHECKING:
    from ternmq.admin.requests.call import AdminCall


class _Page(Protocol):
    @property
    def next_page(self) -> str: ...


P = TypeVar("P", bound=_Page)
T = TypeVar("T")


class AdminClient(ServiceCalls):
    """A client of the admin service at an endpoint; raises `CallRefused` and `ServerUnreachable`.

    `send_call` sends a call of `ternmq.admin`, whose modules a command imports when it needs them: they take long.
    """

    service = SERVICE

    def send_pages(self, call: "Callable[[str], AdminCall[P]]") -> Iterator[P]:
        """Yield the pages of a list as they are needed; `call` creates the call of the page that a mark names."""
        mark = ""
        while True:
            page = self.send_call(call(mark))
            yield page
            mark = page.next_page
            if not mark:
                return


def send_call(endpoint: str, call: "AdminCall[T]") -> T:
    """Send the only call of a command, and return its result."""
    with AdminClient(endpoint) as admin:
        return admin.send_call(call)
