"""Commands of the server to clients. Fronts turn them into messages of their protocols."""

from dataclasses import dataclass

from ternmq_common.shard.model import StoredMessage
from ternmq_proxy.processors.client_settings import NamedTopic


@dataclass(frozen=True, slots=True)
class CheckTransaction:
    """Asks a producer whether the half message is committed or rolled back. `topic` is as the producer named it."""

    transaction_id: str
    topic: NamedTopic
    message: StoredMessage


@dataclass(frozen=True, slots=True)
class DropLiteTopic:
    """Tells a lite consumer that it lost its subscription to the lite topic."""

    lite_topic: str


ClientCommand = CheckTransaction | DropLiteTopic
