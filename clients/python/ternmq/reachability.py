"""What is said of servers that are away: one warning of each client that loses one, one line when it is there again.

What fails meanwhile for no other reason is said for debugging only: calls, heartbeats and polls fail in dozens.
"""

import logging
from collections.abc import Callable, Iterator

from ternmq.endpoints import Endpoints
from ternmq.errors import ClientError, TransportError, Unauthorized

logger = logging.getLogger(__name__)


def level_of(error: ClientError) -> int:
    """The level at which something that failed is logged, where the loss of the connection is said for itself."""
    return logging.DEBUG if isinstance(error, TransportError) else logging.WARNING


class Isolated:
    """The endpoints on which a client's calls broke, until they answer again; they are used last.

    `tell` hears of each change: an endpoint that answers for the first time, one that is lost, with the reason, and one
    that is back.
    """

    def __init__(self, client_id: str, tell: Callable[[Endpoints, ClientError | None], None]) -> None:
        self._client_id = client_id
        self._tell = tell
        self._lost: set[Endpoints] = set()
        self._known: set[Endpoints] = set()

    def lost(self, endpoints: Endpoints, error: ClientError) -> None:
        # A server that ends cuts polls while it still answers what came just then: it would be lost, found, and lost.
        # Whatever is asked next, the session among it, finds out whether it is gone.
        is_cut = isinstance(error, TransportError) and error.connected
        if endpoints not in self._lost and not is_cut:
            self._lost.add(endpoints)
            what = "access" if isinstance(error, Unauthorized) else "connection"
            logger.warning("%s: no %s, it is tried again: %s", self._client_id, what, error)
            self._tell(endpoints, error)

    def found(self, endpoints: Endpoints) -> None:
        if endpoints in self._lost:
            self._lost.discard(endpoints)
            logger.info("%s: connected again: %s", self._client_id, endpoints)
        elif endpoints in self._known:
            return
        self._known.add(endpoints)
        self._tell(endpoints, None)

    def __contains__(self, endpoints: object) -> bool:
        return endpoints in self._lost

    def __iter__(self) -> Iterator[Endpoints]:
        return iter(self._lost)

    def __len__(self) -> int:
        return len(self._lost)
