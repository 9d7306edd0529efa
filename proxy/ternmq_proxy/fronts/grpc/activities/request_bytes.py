"""Reads the resources that requests name, for calls that are read from their bytes (`wire_fields.py`)."""

from functools import lru_cache
from typing import Final

from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.wire_fields import NotOrdinary

# Longer than any legal name, so that little is remembered for names that are refused.
_RESOURCE_BYTES_MAX: Final = 1024


def resource_name(resource: bytes) -> str:
    """Return the name in a serialized Resource. Raises DecodeError."""
    if len(resource) > _RESOURCE_BYTES_MAX:
        raise NotOrdinary
    return _resource_name(resource)


@lru_cache(1024)
def _resource_name(resource: bytes) -> str:
    return definition_pb2.Resource.FromString(resource).name
