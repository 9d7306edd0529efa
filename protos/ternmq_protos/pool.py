"""The descriptor pool of all generated code here.

Why our own: see `tools/generate_protos.py`. The well-known types are registered again in it, so `Timestamp` and
`Duration` of this module, not those of `google.protobuf`, are the classes of our messages' fields.
"""

from typing import TYPE_CHECKING

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["POOL", "Duration", "Timestamp"]

POOL = DescriptorPool()
POOL.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp
else:
    Duration = GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Duration"))
    Timestamp = GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Timestamp"))
