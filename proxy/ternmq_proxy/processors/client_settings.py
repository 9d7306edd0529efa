"""Settings of clients, as fronts read them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ternmq_common.filters.message_filter import ALL_TEXT, FilterText
from ternmq_proxy.processors.client_type import ClientType


class NamedTopic(NamedTuple):
    """A topic as a client named it, with the namespace that the client adds to it."""

    name: str
    namespace: str = ""


class TopicSubscription(NamedTuple):
    """A topic that a consumer subscribes to, with its filter."""

    topic: str
    filter: FilterText = ALL_TEXT


class UserAgent(NamedTuple):
    """The client library: its language, such as `JAVA`, its version, and the machine that it runs on."""

    language: str = ""
    version: str = ""
    hostname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings that a client sent. A consumer has a `group` and `subscriptions`, a producer has topics.

    `client_type` is a number of `ClientType`, or one of a later version. `size` is how many bytes the front read them
    from, which limits what is remembered. `member_id` is what a client of the remoting protocol calls itself, since
    the proxy knows it by another id for each of its groups; else it is empty.
    """

    client_type: int = ClientType.CLIENT_TYPE_UNSPECIFIED
    consumes: bool = False
    group: str = ""
    subscriptions: tuple[TopicSubscription, ...] = ()
    published_topics: tuple[NamedTopic, ...] = ()
    request_timeout_ms: int = 0
    user_agent: UserAgent | None = None
    size: int = field(default=0, compare=False)
    member_id: str = ""

    @property
    def entry_count(self) -> int:
        """How many topics the settings name."""
        return len(self.published_topics) + len(self.subscriptions)
