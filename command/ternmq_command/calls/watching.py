"""Calls of the admin service that observe a running server: clients, status, log levels, diagnostics."""

from typing import TYPE_CHECKING

from ternmq.admin import proxies
from ternmq_command.calls.admin import AdminClient
from ternmq_protos.admin_v1 import admin_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq.admin.proxies import ClientPage

# The server waits for processes that hang, of which there may be dozens.
SILENT_TIMEOUT_S = 30


class WatchingClient(AdminClient):
    """A client of these calls at an endpoint; raises `CallRefused` and `ServerUnreachable`."""

    def list_clients(self, *, group: str = "", topic: str = "") -> "Iterator[ClientPage]":
        """Yield pages of the clients, as they are needed."""
        return self.send_pages(lambda mark: proxies.list_clients(group=group, topic=topic, page=mark))

    def get_status(self) -> admin_pb2.GetStatusResponse:
        return self._call_method("GetStatus", admin_pb2.GetStatusRequest(), admin_pb2.GetStatusResponse)

    def log_levels(self) -> admin_pb2.GetLogLevelsResponse:
        return self._call_method("GetLogLevels", admin_pb2.GetLogLevelsRequest(), admin_pb2.GetLogLevelsResponse)

    def update_log_levels(self, levels: str) -> admin_pb2.UpdateLogLevelsResponse:
        request = admin_pb2.UpdateLogLevelsRequest(levels=levels)
        return self._call_method("UpdateLogLevels", request, admin_pb2.UpdateLogLevelsResponse)

    def get_diagnostics(self) -> admin_pb2.GetDiagnosticsResponse:
        answer_type = admin_pb2.GetDiagnosticsResponse
        return self._call_method(
            "GetDiagnostics", admin_pb2.GetDiagnosticsRequest(), answer_type, timeout_s=SILENT_TIMEOUT_S
        )
