"""The call of `ternmq.admin.v1.Admin` that tells figures of the last hours."""

from typing import TYPE_CHECKING

from ternmq_common.fairness import WorkTurns, wait_for_turn
from ternmq_common.model import HistoryOf
from ternmq_common.names import check_topic_name
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_runtime.observability.history_rings import UNITS

if TYPE_CHECKING:
    from ternmq_common.model import FigureHistory
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def get_history(
    request: admin_pb2.GetHistoryRequest, call: "Call", services: "Services"
) -> admin_pb2.GetHistoryResponse:
    """Of a topic or a group, by the brokers; or of the brokers together, and of this process."""
    del call
    kind = request.WhichOneof("of")
    if kind == "topic":
        topic = await services.catalog.existing_topic(check_topic_name(request.topic))
        return await _answer([await services.messages.history(HistoryOf.TOPIC, topic.name)])
    if kind == "group":
        group = await services.catalog.existing_group(request.group)
        return await _answer([await services.messages.history(HistoryOf.GROUP, group.name)])
    of_brokers = await services.messages.history(HistoryOf.BROKER, "")
    await wait_for_turn()  # each of the two is some thousands of values
    return await _answer([of_brokers, services.history.read_history()])


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
