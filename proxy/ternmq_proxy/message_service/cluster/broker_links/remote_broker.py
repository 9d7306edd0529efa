"""One broker of the cluster, as this proxy reaches it."""

from typing import TYPE_CHECKING, Any

from ternmq_common.names import lite_parent
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import group_by_settled_topic
from ternmq_common.shard.remote_shard import RemoteShard

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.model import AppendRequests, DeliveredMessage
    from ternmq_proxy.message_service.cluster.broker_links.calls import ResultCallback
    from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
    from ternmq_registry.directory import RegistryDirectory


class RemoteBroker:
    """A broker. Each method of `shard` is one call over the link; see `BrokerLink.ask_broker` for errors."""

    def __init__(self, link: "BrokerLink", directory: "RegistryDirectory") -> None:
        self.link = link
        self.name = link.broker
        self.shard = RemoteShard(self.ask_broker)
        self._directory = directory

    def ask_broker(self, call: "ShardCall", values: "Values") -> "Awaitable[Any]":
        """Make a call, with the versions in which its topic and group were created."""
        known = self._directory.snapshot
        return self.link.ask_broker(
            call,
            values,
            topic_created_version=known.topic_created_version(call.required_topic(values)),
            group_created_version=known.group_created_version(call.required_group(values)),
            on_late=(lambda late: self._give_back(values, late)) if call.name == "pop" else None,
        )

    def ask_nowait(self, call: "ShardCall", values: "Values", heard: "ResultCallback") -> None:
        """Make a call like `ask_broker`, without waiting; see `BrokerLink.ask_nowait`. Not for `pop`."""
        known = self._directory.snapshot
        self.link.ask_nowait(
            call,
            values,
            heard,
            topic_created_version=known.topic_created_version(call.required_topic(values)),
            group_created_version=known.group_created_version(call.required_group(values)),
        )

    def append_each_nowait(self, requests: "AppendRequests", heard: "ResultCallback") -> None:
        """See `RemoteShard` and `ask_nowait`. The call carries the version of the topic that was created last."""
        known = self._directory.snapshot
        created_version = max(known.topic_created_version(lite_parent(queue.topic)) for queue, _ in requests)
        self.link.ask_nowait(CALLS["append_each"], (requests,), heard, topic_created_version=created_version)

    def _give_back(self, values: "Values", late: "list[DeliveredMessage]") -> None:
        """Give messages back whose answer came too late."""
        for topic, some in group_by_settled_topic(values[0].topic, late).items():
            handles = [delivery.handle for delivery in some]
            self.link.notify_broker(CALLS["release"], (values[0].group, topic, handles, False))
