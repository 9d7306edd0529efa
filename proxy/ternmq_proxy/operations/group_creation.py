"""Decides whether a call may create its consumer group by use.

A group that is deleted while clients are members of it stays deleted: their next call would create it again within a
second, with the default settings. They get CONSUMER_GROUP_NOT_FOUND until an operator creates it, or until they restart
under another client id.
"""

import logging
from typing import TYPE_CHECKING

from ternmq_common.printable import cut_text
from ternmq_proxy.access.needs import GROUP_CREATE

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)


def may_create_group(call: "Call", name: str, services: "Services") -> bool:
    """Return whether the caller's rights allow it, and the group was not deleted while the caller was a member of
    it."""
    client = services.clients.find_client(call.client_id)
    if client is None or client.group != name or not client.has_joined or services.catalog.has_group(name):
        return services.access.has_right(call, GROUP_CREATE, name)
    if not client.was_refused:
        client.was_refused = True
        _log.warning(
            "consumer group %s was deleted while client %s was a member of it; the client's calls are refused until "
            "the group is created again",
            *(name, cut_text(client.client_id)),
        )
    return False
