"""Calls of `ternmq.admin.v1.Admin` about the called server (`operations/admin/servers/server_status.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.process.own_version import own_version
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.servers import log_levels, server_status

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.admin.servers.log_levels import LogLevels
    from ternmq_proxy.operations.admin.servers.server_status import Component
    from ternmq_proxy.services import Services
    from ternmq_runtime.observability.self_report import SelfReport


async def get_server_info(
    request: admin_pb2.GetServerInfoRequest, call: "Call", services: "Services"
) -> admin_pb2.GetServerInfoResponse:
    """Return version, start and resident memory of this process, and its time."""
    del request
    info = await server_status.describe_server(call, services)
    answer = admin_pb2.GetServerInfoResponse(
        status=OK,
        version=info.version,
        resident_bytes=info.resident_bytes,
        test_clock=info.has_test_clock,
    )
    answer.started.FromMilliseconds(info.started_ms)
    answer.now.FromMilliseconds(info.now_ms)
    return answer


async def get_status(
    request: admin_pb2.GetStatusRequest, call: "Call", services: "Services"
) -> admin_pb2.GetStatusResponse:
    """Return every component that this process knows of, and whether all is well with it."""
    del request
    components = await server_status.find_components(call, services)
    return admin_pb2.GetStatusResponse(status=OK, version=own_version(), components=map(_component, components))


def _component(component: "Component") -> admin_pb2.Component:
    return admin_pb2.Component(kind=component.kind, name=component.name, well=component.is_well, said=component.remark)


async def get_log_levels(
    request: admin_pb2.GetLogLevelsRequest, call: "Call", services: "Services"
) -> admin_pb2.GetLogLevelsResponse:
    """Return the levels in force in each process."""
    del request
    levels = await log_levels.find_log_levels(call, services)
    return admin_pb2.GetLogLevelsResponse(status=OK, processes=_levels(levels), silent=levels.silent)


async def update_log_levels(
    request: admin_pb2.UpdateLogLevelsRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateLogLevelsResponse:
    """Change them in each process, until it ends."""
    levels = await log_levels.update_log_levels(request.levels, call, services)
    return admin_pb2.UpdateLogLevelsResponse(status=OK, processes=_levels(levels), silent=levels.silent)


def _levels(levels: "LogLevels") -> list[admin_pb2.ProcessLogLevels]:
    return [admin_pb2.ProcessLogLevels(process=name, levels=text) for name, text in levels.by_process.items()]


async def get_diagnostics(
    request: admin_pb2.GetDiagnosticsRequest, call: "Call", services: "Services"
) -> admin_pb2.GetDiagnosticsResponse:
    """Return what helps to find a fault, of each process; without secrets."""
    del request
    found = await server_status.collect_diagnostics(call, services)
    processes = [_diagnostics(name, report) for name, report in found.reports.items()]
    return admin_pb2.GetDiagnosticsResponse(status=OK, processes=processes, silent=found.silent)


def _diagnostics(process: str, report: "SelfReport") -> admin_pb2.ProcessDiagnostics:
    return admin_pb2.ProcessDiagnostics(
        process=process,
        pid=report.pid,
        python=report.python,
        platform=report.platform,
        resident_bytes=report.resident_bytes,
        descriptors=report.descriptors,
        settings=report.settings,
        threads=report.threads,
        tasks=report.tasks,
        tasks_by_kind=report.tasks_by_kind,
    )
