"""Queries the type of a topic. The module imports the client library, so subcommands import it when they run."""

from ternmq_command.calls.messaging import MessagingClient
from ternmq_command.terminal.failures import CallRefused
from ternmq_protos.v2 import definition_pb2 as pb


def accepts_timed_messages(endpoint: str, topic: str) -> bool:
    """Return whether the topic is of type DELAY; False if it does not exist."""
    with MessagingClient(endpoint) as messaging:
        try:
            queues = messaging.readable_queues(topic)
        except CallRefused as refusal:
            if refusal.code == pb.TOPIC_NOT_FOUND:
                return False
            raise
    return any(list(queue.accept_message_types) == [pb.DELAY] for queue in queues)
