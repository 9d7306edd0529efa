"""Answers of the remoting protocol for requests that were refused."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_rpc.remoting.commands import Command, InvalidField
from ternmq_rpc.remoting.frames import RemotingError
from ternmq_rpc.remoting.message_records import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)
REMARK_CHARACTERS_MAX = 2000
# Clients older than 5.3.1 don't know GO_AWAY.
_GO_AWAY_FROM = 476

_CODES: "Mapping[int, ResponseCode]" = {
    ErrorCode.BAD_REQUEST: ResponseCode.INVALID_PARAMETER,
    ErrorCode.ILLEGAL_TOPIC: ResponseCode.INVALID_PARAMETER,
    ErrorCode.ILLEGAL_CONSUMER_GROUP: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ErrorCode.ILLEGAL_MESSAGE_TAG: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.ILLEGAL_MESSAGE_KEY: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.ILLEGAL_MESSAGE_GROUP: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.ILLEGAL_MESSAGE_PROPERTY_KEY: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.INVALID_TRANSACTION_ID: ResponseCode.SYSTEM_ERROR,
    ErrorCode.ILLEGAL_MESSAGE_ID: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.ILLEGAL_FILTER_EXPRESSION: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ErrorCode.ILLEGAL_DELIVERY_TIME: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.INVALID_RECEIPT_HANDLE: ResponseCode.NO_MESSAGE,
    ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.MESSAGE_CORRUPTED: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.ILLEGAL_OFFSET: ResponseCode.PULL_OFFSET_MOVED,
    ErrorCode.ILLEGAL_LITE_TOPIC: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.UNAUTHORIZED: ResponseCode.NO_PERMISSION,
    ErrorCode.FORBIDDEN: ResponseCode.NO_PERMISSION,
    ErrorCode.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    ErrorCode.MESSAGE_NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    ErrorCode.TOPIC_NOT_FOUND: ResponseCode.TOPIC_NOT_EXIST,
    ErrorCode.CONSUMER_GROUP_NOT_FOUND: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ErrorCode.OFFSET_NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    ErrorCode.PAYLOAD_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.MESSAGE_BODY_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.MESSAGE_BODY_EMPTY: ResponseCode.SYSTEM_ERROR,
    ErrorCode.TOO_MANY_REQUESTS: ResponseCode.SYSTEM_BUSY,
    ErrorCode.MESSAGE_PROPERTIES_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    ErrorCode.HA_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    ErrorCode.PROXY_TIMEOUT: ResponseCode.SYSTEM_BUSY,
    ErrorCode.MASTER_PERSISTENCE_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    ErrorCode.SLAVE_PERSISTENCE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
}


class RequestRefused(Exception):
    """A request is refused with a code that only this protocol has."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(remark)


def answer_error(error: BaseException, name: str) -> Command:
    """Return the answer to the request of this name that failed; an unexpected error is logged."""
    if isinstance(error, RequestRefused):
        return Command(error.code, remark=error.remark[:REMARK_CHARACTERS_MAX])
    if isinstance(error, MessagingError):
        code = _CODES.get(error.code, ResponseCode.SYSTEM_ERROR)
        return Command(code, remark=error.message[:REMARK_CHARACTERS_MAX])
    if isinstance(error, InvalidField | RemotingError):
        return Command(ResponseCode.SYSTEM_ERROR, remark=str(error)[:REMARK_CHARACTERS_MAX])
    if isinstance(error, InvalidRecord):
        return Command(ResponseCode.MESSAGE_ILLEGAL, remark=str(error)[:REMARK_CHARACTERS_MAX])
    _log.error("%s failed in a way nobody foresaw", name, exc_info=error)
    return Command(ResponseCode.SYSTEM_ERROR, remark="an internal error; the server's log has it")


def refuse_request(command: Command, is_stopping: bool) -> Command:
    """Return the answer to a request that is not served: because the server stops, or else by a limit."""
    if not is_stopping:
        return Command(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]too many requests of this connection wait")
    if command.version >= _GO_AWAY_FROM:
        return Command(ResponseCode.GO_AWAY, remark="the server stops; connect again")
    return Command(ResponseCode.SERVICE_NOT_AVAILABLE, remark="the server stops")


def answer_unknown(code: int) -> Command:
    """Return the answer to a request of a code that is not served."""
    return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")
