"""ChangeLogLevel and GetProxyRuntimeStats (`operations/admin/servers/`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.admin_pb2 import (
    ChangeLogLevelRequest,
    ChangeLogLevelResponse,
    GetProxyRuntimeStatsRequest,
    GetProxyRuntimeStatsResponse,
)
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_proxy.operations.admin.servers import log_levels
from ternmq_proxy.operations.admin.servers.server_status import count_clients
from ternmq_proxy.peers.forms import to_stats_message

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# There is nothing below debug.
_LEVELS = {
    ChangeLogLevelRequest.TRACE: "debug",
    ChangeLogLevelRequest.DEBUG: "debug",
    ChangeLogLevelRequest.INFO: "info",
    ChangeLogLevelRequest.WARN: "warning",
    ChangeLogLevelRequest.ERROR: "error",
}


async def change_log_level(
    request: ChangeLogLevelRequest, call: "Call", services: "Services"
) -> ChangeLogLevelResponse:
    """One level for all loggers of this server, in each of its processes, until it ends; BAD_REQUEST for none."""
    level = _LEVELS.get(request.level, int(request.level))
    before, now = await log_levels.change_log_level(level, call, services)
    remark = f"log levels were {before}, and are {now.by_process[services.process.name]}"
    if now.silent:
        remark += f"; nothing was heard of {', '.join(now.silent)}"
    return ChangeLogLevelResponse(remark=remark)


async def get_proxy_runtime_stats(
    request: GetProxyRuntimeStatsRequest, call: "Call", services: "Services"
) -> GetProxyRuntimeStatsResponse:
    """Name, version and clients of this server. Rates are in its metrics, and not in this answer."""
    del request
    stats, silent = await count_clients(call, services)
    answer = to_stats_message(stats)
    answer.status.CopyFrom(status_of_cut("clients", silent=silent))
    return answer
