"""Tracks servers that are away, and logs it: one warning of each client that loses one, one line when it is back.

Failures that only follow from that are logged at debug level: calls, heartbeats and polls fail in dozens.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ternmq.connections.endpoints import Endpoints
from ternmq.errors import ClientError, TransportError, Unauthorized

logger = logging.getLogger(__name__)


def log_level_of(error: ClientError) -> int:
    """Return the level at which to log a failure: lower if it follows from a lost connection, which is logged
    itself."""
    return logging.DEBUG if isinstance(error, TransportError) else logging.WARNING


class IsolatedEndpoints:
    """The endpoints on which a client's calls failed, until they answer again; they are used last.

    `on_change` is called for each change: an endpoint that answers for the first time, one that is lost, with the
    reason, and one that is back. While a server ends and another one starts in its place, calls from before and after
    end in any order: a call that began before the last change proves nothing. So the caller keeps `changes_of` from
    when its call began.
    """

    def __init__(self, client_id: str, on_change: Callable[[Endpoints, ClientError | None], None]) -> None:
        self._client_id = client_id
        self._on_change = on_change
        self._lost: set[Endpoints] = set()
        self._known: set[Endpoints] = set()
        self._changes: dict[Endpoints, int] = {}

    def changes_of(self, endpoints: Endpoints) -> int:
        """Return how often the endpoint was lost or came back."""
        return self._changes.get(endpoints, 0)

    @contextmanager
    def watch_call(self, endpoints: Endpoints) -> Iterator[None]:
        """Note a TransportError of the block as a loss of the endpoint."""
        changes = self.changes_of(endpoints)
        try:
            yield
        except TransportError as error:
            self.note_lost(endpoints, error, changes)
            raise

    def note_lost(self, endpoints: Endpoints, error: ClientError, changes: int) -> None:
        """Note that a call failed which began at that count of changes."""
        # A server that ends cuts polls while it still answers other calls: it would be lost, found, and lost again. The
        # next call, or the session, finds out whether it is gone.
        is_cut = isinstance(error, TransportError) and error.connected
        if endpoints not in self._lost and not is_cut and self._is_current(endpoints, changes):
            self._lost.add(endpoints)
            what = "access" if isinstance(error, Unauthorized) else "connection"
            logger.warning("%s: no %s, it is tried again: %s", self._client_id, what, error)
            self._on_change(endpoints, error)

    def note_found(self, endpoints: Endpoints, changes: int) -> None:
        """Note that a call was answered which began at that count of changes."""
        if endpoints not in self._lost:
            if endpoints not in self._known:
                self._known.add(endpoints)
                self._on_change(endpoints, None)
        elif self._is_current(endpoints, changes):
            self._lost.discard(endpoints)
            self._known.add(endpoints)
            logger.info("%s: connected again: %s", self._client_id, endpoints)
            self._on_change(endpoints, None)

    def _is_current(self, endpoints: Endpoints, changes: int) -> bool:
        """Return whether nothing changed since that count; if so, count a change now."""
        if changes != self.changes_of(endpoints):
            return False
        self._changes[endpoints] = changes + 1
        return True

    def __contains__(self, endpoints: object) -> bool:
        return endpoints in self._lost

    def __iter__(self) -> Iterator[Endpoints]:
        return iter(self._lost)

    def __len__(self) -> int:
        return len(self._lost)
