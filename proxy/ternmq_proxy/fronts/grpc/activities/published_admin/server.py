"""ChangeLogLevel and GetProxyRuntimeStats: the server that is asked, with all its processes."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import WorkTurns
from ternmq_common.own_version import own_version
from ternmq_protos.admin_v1.admin_pb2 import UpdateLogLevelsRequest
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.admin_pb2 import (
    ChangeLogLevelRequest,
    ChangeLogLevelResponse,
    GetProxyRuntimeStatsRequest,
    GetProxyRuntimeStatsResponse,
)
from ternmq_proxy.fronts.grpc.activities.admin.elsewhere import told_by_siblings
from ternmq_proxy.fronts.grpc.activities.admin.server import update_log_levels
from ternmq_proxy.fronts.grpc.activities.published_admin.bounds import status_of_cut
from ternmq_runtime.observability import log_control

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

STATS = "published-stats"
"""The question for siblings; it has no argument."""
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
    level = _LEVELS.get(request.level)
    if level is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"log level {request.level} is unknown")
    before = log_control.current_levels()
    changed = await update_log_levels(UpdateLogLevelsRequest(levels=level), call, services)
    remark = f"log levels were {before}, and are {changed.processes[0].levels}"
    if changed.silent:
        remark += f"; nothing was heard of {', '.join(changed.silent)}"
    return ChangeLogLevelResponse(remark=remark)


async def get_proxy_runtime_stats(
    request: GetProxyRuntimeStatsRequest, call: "Call", services: "Services"
) -> GetProxyRuntimeStatsResponse:
    """Name, version and clients of this server. Rates are in its metrics; here nobody keeps them."""
    del request, call
    answer = await _own_stats(services)
    others, silent = await told_by_siblings(GetProxyRuntimeStatsResponse.FromString, STATS, services)
    for told in others:
        answer.connections += told.connections
        answer.producers += told.producers
        answer.consumers += told.consumers
    answer.status.CopyFrom(status_of_cut("clients", silent=silent))
    return answer


async def answer_stats(argument: str, services: "Services") -> bytes:
    """What a sibling is told."""
    del argument
    data: bytes = (await _own_stats(services)).SerializeToString()
    return data


async def _own_stats(services: "Services") -> GetProxyRuntimeStatsResponse:
    producers = consumers = 0
    turns = WorkTurns()
    for client in services.clients.list_clients():
        producers += client.client_type == definition_pb2.PRODUCER
        consumers += client.is_consumer
        await turns.next_turn()
    return GetProxyRuntimeStatsResponse(
        proxy_name=services.process.server,
        version=own_version(),
        connections=services.connections(),
        producers=producers,
        consumers=consumers,
    )
