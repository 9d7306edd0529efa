"""Requests that have no meaning here, each with the line that says why."""

from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.codes import RequestCode, ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import refuse_always
from ternmq_proxy.fronts.remoting.handlers.handler import Handler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONTAINER = "a process here is one broker, and none is added to it: start another with `ternmq broker`"
_CONTROLLER = "there is no controller here: replicas elect their leader in the registry (`ternmq broker list`)"
_COLD = "reads of old messages are not throttled here; limit what a group is delivered with `ternmq quota set`"
_LITE = "lite topics are those of gRPC clients here; `ternmq topic describe` and `ternmq group describe` show them"
_ROCKSDB = "nothing here is stored in RocksDB"
_REASONS: "Mapping[RequestCode, str]" = {
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: "there are no static topics here: queues stay where they are",
    RequestCode.ADD_BROKER: _CONTAINER,
    RequestCode.REMOVE_BROKER: _CONTAINER,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: "replicas agree on what is flushed by themselves here",
    RequestCode.CONTROLLER_ELECT_MASTER: _CONTROLLER,
    RequestCode.CONTROLLER_GET_METADATA_INFO: _CONTROLLER,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: _CONTROLLER,
    # As a broker without a controller says it.
    RequestCode.GET_BROKER_EPOCH_CACHE: "this request only for controllerMode ",
    RequestCode.UPDATE_CONTROLLER_CONFIG: _CONTROLLER,
    RequestCode.GET_CONTROLLER_CONFIG: _CONTROLLER,
    RequestCode.CLEAN_BROKER_DATA: _CONTROLLER,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD,
    RequestCode.SET_COMMITLOG_READ_MODE: "how the commit log is read ahead can't be set here",
    RequestCode.SWITCH_TIMER_ENGINE: "there is one engine for delayed messages here",
    RequestCode.GET_BROKER_LITE_INFO: _LITE,
    RequestCode.GET_PARENT_TOPIC_INFO: _LITE,
    RequestCode.GET_LITE_TOPIC_INFO: _LITE,
    RequestCode.GET_LITE_CLIENT_INFO: _LITE,
    RequestCode.GET_LITE_GROUP_INFO: _LITE,
    RequestCode.TRIGGER_LITE_DISPATCH: _LITE,
}
_AS_BROKERS_DO = {RequestCode.GET_BROKER_EPOCH_CACHE: ResponseCode.SYSTEM_ERROR}


def _make_handlers() -> "Iterator[tuple[int, Handler]]":
    for code, why in _REASONS.items():
        refusal = _AS_BROKERS_DO.get(code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        yield code, Handler("Unserved", refuse_always(why, refusal))


UNSERVED_HANDLERS = dict(_make_handlers())
