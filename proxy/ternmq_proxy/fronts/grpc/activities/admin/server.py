"""Calls of `ternmq.admin.v1.Admin` about the server that is asked: its state, its log levels, what tells of faults.

A server of several processes (`--workers`) answers for all of them, as one process asks the others. The proxies of a
cluster, and its brokers, are servers of their own.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.own_version import own_version
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_runtime.observability import log_control
from ternmq_runtime.observability.self_report import SelfReport, create_report
from ternmq_runtime.workers.siblings import CHANGE_LOG_LEVELS, LOG_LEVELS, REPORT, decode_report, encode_log_change
from ternmq_runtime.workers.worker_place import BROKER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ternmq_common.cluster import BrokerEntry
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def get_status(
    request: admin_pb2.GetStatusRequest, call: "Call", services: "Services"
) -> admin_pb2.GetStatusResponse:
    """Every component that this process knows of, and whether all is well with it."""
    del request, call
    answer = admin_pb2.GetStatusResponse(status=OK, version=own_version())
    answer.components.append(_own(services))
    siblings = await services.process.siblings.read_health()
    for name, amiss in siblings.items():
        if name != BROKER:
            answer.components.append(_component("worker", name, amiss))
    answer.components.append(_component("registry", "registry", services.catalog.registry_problem))
    answer.components.extend(_brokers(services, siblings))
    return answer


def _own(services: "Services") -> admin_pb2.Component:
    process = services.process
    is_all = process.kind == "server"  # which is its own broker, and that has a line of its own
    return _component(process.kind, process.name, None if is_all else services.messages.outage_reason)


def _brokers(services: "Services", siblings: "Mapping[str, str | None]") -> "Iterator[admin_pb2.Component]":
    for broker in services.catalog.list_brokers():
        if BROKER in siblings:
            yield _component("broker", broker.name, siblings[BROKER])
        elif services.catalog.is_embedded:
            yield _component("broker", broker.name, services.messages.outage_reason or services.process.degraded())
        else:
            yield _of_cluster(broker)


def _of_cluster(broker: "BrokerEntry") -> admin_pb2.Component:
    said = [] if broker.live else ["not heard of for some seconds"]
    remarks = ["it is being drained"] if broker.draining else []
    in_sync = sum(replica.in_sync for replica in broker.replicas)
    if broker.replicas and in_sync < broker.replicas_wanted:
        remarks.append(f"{in_sync} of {broker.replicas_wanted} replicas are in sync, and {broker.min_insync} needed")
    return admin_pb2.Component(kind="broker", name=broker.name, well=broker.live, said="; ".join([*said, *remarks]))


def _component(kind: str, name: str, amiss: str | None) -> admin_pb2.Component:
    return admin_pb2.Component(kind=kind, name=name, well=amiss is None, said=amiss or "")


async def get_log_levels(
    request: admin_pb2.GetLogLevelsRequest, call: "Call", services: "Services"
) -> admin_pb2.GetLogLevelsResponse:
    """The levels in force in each process."""
    del request, call
    answers = await services.process.siblings.ask_all(LOG_LEVELS)
    processes, silent = _levels(services, log_control.current_levels(), answers)
    return admin_pb2.GetLogLevelsResponse(status=OK, processes=processes, silent=silent)


async def update_log_levels(
    request: admin_pb2.UpdateLogLevelsRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateLogLevelsResponse:
    """Change them in each process, until it ends; BAD_REQUEST for what are none."""
    try:
        levels = log_control.change_levels(request.levels, by=call.caller_text)
    except ValueError as error:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"log levels: {error}") from None
    answers = await services.process.siblings.ask_all(
        CHANGE_LOG_LEVELS, encode_log_change(request.levels, by=call.caller_text)
    )
    processes, silent = _levels(services, levels, answers)
    return admin_pb2.UpdateLogLevelsResponse(status=OK, processes=processes, silent=silent)


def _levels(
    services: "Services", own: str, answers: "Mapping[str, bytes | None]"
) -> tuple[list[admin_pb2.ProcessLogLevels], list[str]]:
    """What the processes say, this one first, and who says nothing."""
    processes = [admin_pb2.ProcessLogLevels(process=services.process.name, levels=own)]
    processes += [
        admin_pb2.ProcessLogLevels(process=name, levels=answer.decode())
        for name, answer in answers.items()
        if answer is not None
    ]
    return processes, [name for name, answer in answers.items() if answer is None]


async def get_diagnostics(
    request: admin_pb2.GetDiagnosticsRequest, call: "Call", services: "Services"
) -> admin_pb2.GetDiagnosticsResponse:
    """What helps to find a fault, of each process; without secrets."""
    del request, call
    process = services.process
    answer = admin_pb2.GetDiagnosticsResponse(status=OK)
    answer.processes.append(_diagnostics(process.name, create_report(process.settings)))
    for name, told in (await process.siblings.ask_all(REPORT)).items():
        if told is None:
            answer.silent.append(name)
        else:
            answer.processes.append(_diagnostics(name, decode_report(told)))
    return answer


def _diagnostics(process: str, report: SelfReport) -> admin_pb2.ProcessDiagnostics:
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
