"""The values that tools of RocketMQ keep in a name server: a text for each namespace and key.

Rights  a namespace of topics, ORDER_TOPIC_CONFIG, needs those on the topic that is the key; all others are the
        cluster's.
Limits  sizes here, the number in the registry. Nothing in the server depends on a value.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.printable import find_name_problem, has_control
from ternmq_proxy.access.needs import CLUSTER_GET, CLUSTER_UPDATE, TOPIC_CHANGE, TOPIC_GET, TOPIC_UPDATE

if TYPE_CHECKING:
    from ternmq_proxy.access.needs import AccessNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
VALUE_CHARACTERS_MAX = 8192
_NAME_SERVER = "name-server"


async def read_values(namespace: str, call: "Call", services: "Services") -> dict[str, str]:
    """Return the values of a namespace by key; of topics, those that the caller may see."""
    if namespace != ORDER_NAMESPACE:
        services.access.require_right("GetKvConfig", call, CLUSTER_GET, _NAME_SERVER)
    if find_name_problem(namespace):
        return {}
    found = await services.catalog.values.read_values(namespace)
    if namespace != ORDER_NAMESPACE:
        return found
    return {key: value for key, value in found.items() if services.access.has_right(call, TOPIC_GET, key)}


async def put_value(namespace: str, key: str, value: str, call: "Call", services: "Services") -> None:
    """Set a value. BAD_REQUEST for one that is too long, or has control characters."""
    _require_change("PutKvConfig", namespace, key, TOPIC_UPDATE, call, services)
    for what, text in (("namespace", namespace), ("key", key)):
        if problem := find_name_problem(text):
            raise MessagingError(ErrorCode.BAD_REQUEST, f"the {what} {problem}")
    if len(value) > VALUE_CHARACTERS_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"the value is longer than {VALUE_CHARACTERS_MAX} characters")
    if has_control(value):
        raise MessagingError(ErrorCode.BAD_REQUEST, "the value holds a control character")
    await services.catalog.values.put_value(namespace, key, value)


async def delete_value(namespace: str, key: str, call: "Call", services: "Services") -> None:
    """Delete a value; one that is not there is no error."""
    _require_change("DeleteKvConfig", namespace, key, TOPIC_CHANGE, call, services)
    if not find_name_problem(namespace):
        await services.catalog.values.delete_value(namespace, key)


def _require_change(rpc: str, namespace: str, key: str, need: "AccessNeed", call: "Call", services: "Services") -> None:
    named = (need, key) if namespace == ORDER_NAMESPACE else (CLUSTER_UPDATE, _NAME_SERVER)
    services.access.require_change(rpc, call, named)
