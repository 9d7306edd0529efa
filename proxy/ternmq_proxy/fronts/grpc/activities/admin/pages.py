"""Pages of topics and groups, as requests ask for them."""

from typing import TYPE_CHECKING

from ternmq_proxy.operations.admin.pages import PageQuery

if TYPE_CHECKING:
    from ternmq_protos.admin_v1 import admin_pb2


def read_page(request: "admin_pb2.ListTopicsRequest | admin_pb2.ListGroupsRequest") -> PageQuery:
    """Read the requested page."""
    return PageQuery(request.search, request.page, request.limit)
