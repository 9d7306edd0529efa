"""Topics and groups, as pipelines read and create them through TernMQ's admin service."""

from typing import Self

from pyspark_ternmq.options import OptionReader, connection_of
from pyspark_ternmq.pipelines.connection import PipelineConnection
from ternmq.connections.connection import RpcMethod
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.admin_v1 import admin_pb2

SERVICE = "/ternmq.admin.v1.Admin/"
_TOPIC = RpcMethod("DescribeTopic", admin_pb2.DescribeTopicRequest, admin_pb2.DescribeTopicResponse, SERVICE)
_CREATE_TOPIC = RpcMethod("CreateTopic", admin_pb2.CreateTopicRequest, admin_pb2.CreateTopicResponse, SERVICE)
_GROUP = RpcMethod("DescribeGroup", admin_pb2.DescribeGroupRequest, admin_pb2.DescribeGroupResponse, SERVICE)


class PipelineAdministrator(OffsetReader):
    """An `OffsetReader` that also knows topics and groups; `Unsupported` where the server is no TernMQ."""

    @classmethod
    def at(cls, connection: PipelineConnection) -> Self:
        """Create a client with the keys and certificates of a pipeline."""
        opened = connection_of(OptionReader(connection.options(), ()))
        return cls(opened.endpoint, **opened.client_options())

    def describe_topic(self, name: str) -> admin_pb2.DescribeTopicResponse:
        """`NotFound` if the group does not exist; this does not create it."""
        return self._call_patiently(self._access_point, _TOPIC, admin_pb2.DescribeTopicRequest(name=name))

    def create_topic(self, topic: admin_pb2.Topic) -> None:
        """Nothing happens if it is there with the same settings."""
        request = admin_pb2.CreateTopicRequest(topic=topic)
        self._call_patiently(self._access_point, _CREATE_TOPIC, request)

    def describe_group(self, name: str) -> admin_pb2.DescribeGroupResponse:
        return self._call_patiently(self._access_point, _GROUP, admin_pb2.DescribeGroupRequest(name=name))
