"""The requests that are served, by their codes."""

from ternmq_proxy.fronts.remoting.codes import RequestCode
from ternmq_proxy.fronts.remoting.handlers import (
    clients,
    direct_sends,
    locks,
    offsets,
    pulls,
    queries,
    recalls,
    replies,
    routes,
    send_backs,
    sends,
    transactions,
)
from ternmq_proxy.fronts.remoting.handlers.admin.table import ADMIN_HANDLERS
from ternmq_proxy.fronts.remoting.handlers.handler import Handler
from ternmq_proxy.fronts.remoting.handlers.popping import assignments, peeks, pops

_SEND = Handler(
    "SendMessage", sends.send_message, complete_refusal=sends.complete_answer, begin=direct_sends.begin_send
)
HANDLERS: dict[int, Handler] = {
    RequestCode.SEND_MESSAGE: _SEND,
    RequestCode.SEND_MESSAGE_V2: _SEND,
    RequestCode.SEND_BATCH_MESSAGE: Handler("SendMessage", sends.send_batch, complete_refusal=sends.complete_answer),
    RequestCode.PULL_MESSAGE: Handler("PullMessage", pulls.pull_messages, may_wait=True),
    RequestCode.LITE_PULL_MESSAGE: Handler("PullMessage", pulls.pull_messages, may_wait=True),
    RequestCode.QUERY_MESSAGE: Handler("QueryMessages", queries.query_messages),
    RequestCode.QUERY_CONSUMER_OFFSET: Handler("GetOffset", offsets.query_committed),
    RequestCode.UPDATE_CONSUMER_OFFSET: Handler("UpdateOffset", offsets.update_committed),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Handler("QueryOffset", offsets.search_offset),
    RequestCode.GET_MAX_OFFSET: Handler("QueryOffset", offsets.get_maximum),
    RequestCode.GET_MIN_OFFSET: Handler("QueryOffset", offsets.get_minimum),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Handler("QueryOffset", offsets.get_earliest_time),
    RequestCode.VIEW_MESSAGE_BY_ID: Handler("DescribeMessage", queries.view_message),
    RequestCode.HEART_BEAT: Handler("Heartbeat", clients.take_heartbeat, begin=clients.begin_heartbeat),
    RequestCode.UNREGISTER_CLIENT: Handler("NotifyClientTermination", clients.unregister_client),
    RequestCode.CONSUMER_SEND_MSG_BACK: Handler("SendBack", send_backs.send_message_back),
    RequestCode.END_TRANSACTION: Handler("EndTransaction", transactions.end_transaction),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Handler("QueryAssignment", clients.list_members),
    RequestCode.LOCK_BATCH_MQ: Handler("LockQueues", locks.lock_queues),
    RequestCode.UNLOCK_BATCH_MQ: Handler("LockQueues", locks.unlock_queues),
    RequestCode.CHECK_CLIENT_CONFIG: Handler("Telemetry", clients.check_subscription),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler("QueryRoute", routes.get_route),
    RequestCode.SEND_REPLY_MESSAGE: Handler("SendMessage", replies.send_reply, complete_refusal=sends.complete_answer),
    RequestCode.SEND_REPLY_MESSAGE_V2: Handler(
        "SendMessage", replies.send_reply, complete_refusal=sends.complete_answer
    ),
    RequestCode.RECALL_MESSAGE: Handler("RecallMessage", recalls.recall_message),
    RequestCode.QUERY_ASSIGNMENT: Handler("QueryAssignment", assignments.query_assignment),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Handler("UpdateGroup", assignments.set_request_mode),
    RequestCode.POP_MESSAGE: Handler("ReceiveMessage", pops.pop_messages, may_wait=True),
    RequestCode.ACK_MESSAGE: Handler("AckMessage", pops.acknowledge_message),
    RequestCode.PEEK_MESSAGE: Handler("PeekMessage", peeks.answer_peek),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Handler("ChangeInvisibleDuration", pops.change_invisible),
    RequestCode.NOTIFICATION: Handler("PeekMessage", peeks.notify_of_messages, may_wait=True),
    RequestCode.POLLING_INFO: Handler("PeekMessage", peeks.count_waiting_pops),
    RequestCode.BATCH_ACK_MESSAGE: Handler("AckMessage", pops.acknowledge_batch),
    **ADMIN_HANDLERS,
}
