"""What is known of a client, as the published service tells it."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import CLUSTERING, ClientInfo

if TYPE_CHECKING:
    from ternmq_protos.admin_v1.admin_pb2 import ConnectedClient


def client_info(client: "ConnectedClient") -> ClientInfo:
    """Of a consumer; version, language and host name are those of its settings, and empty where it sent none."""
    host = client.address.rpartition(":")[0]
    return ClientInfo(
        client_id=client.client_id,
        version=client.version,
        language=client.language,
        hostname=client.hostname,
        egress_ip=host.strip("[]"),
        message_model=CLUSTERING,
    )
