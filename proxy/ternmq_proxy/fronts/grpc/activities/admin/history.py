"""GetHistory of `ternmq.admin.v1.Admin` (`operations/admin/servers/figure_history.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.shard.model import HistoryOf
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.servers.figure_history import find_history
from ternmq_runtime.observability.history_rings import UNITS

if TYPE_CHECKING:
    from ternmq_common.shard.model import FigureHistory
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def get_history(
    request: admin_pb2.GetHistoryRequest, call: "Call", services: "Services"
) -> admin_pb2.GetHistoryResponse:
    """Return the figures of a topic, of a group, or of the brokers together and of this process."""
    match request.WhichOneof("of"):
        case "topic":
            return await _answer(await find_history(HistoryOf.TOPIC, request.topic, call, services))
        case "group":
            return await _answer(await find_history(HistoryOf.GROUP, request.group, call, services))
        case _:
            return await _answer(await find_history(HistoryOf.BROKER, "", call, services))


async def _answer(histories: "list[FigureHistory]") -> admin_pb2.GetHistoryResponse:
    turns = WorkTurns()
    answer = admin_pb2.GetHistoryResponse(status=OK)
    answer.step.FromMilliseconds(histories[0].step_ms)
    answer.end.FromMilliseconds(max(each.end_ms for each in histories))
    for each in histories:
        for name, values in each.series.items():
            await turns.next_turn()
            answer.series.add(name=name, unit=UNITS.get(name, ""), values=values)
    return answer
