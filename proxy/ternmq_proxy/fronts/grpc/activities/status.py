"""Statuses of answers, and the only place where an error becomes a status."""

import logging
import secrets
from typing import TYPE_CHECKING, Final, cast

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError, code_name
from ternmq_protos.v2.definition_pb2 import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_protos.v2.definition_pb2 import Code
    from ternmq_protos.v2.definition_pb2 import MessageType as ProtocolMessageType

_log = logging.getLogger(__name__)


def protocol_code(code: int) -> "Code":
    """Return an `ErrorCode` as the protocol's enum, whose numbers are the same."""
    return cast("Code", code)


def protocol_type(kind: MessageType) -> "ProtocolMessageType":
    """Return a message type as the protocol's enum, whose numbers are the same."""
    return cast("ProtocolMessageType", kind)


OK: Final = Status(code=protocol_code(ErrorCode.OK), message="OK")


def make_status(code: int, message: str = "") -> Status:
    """Return a status with a sentence for people. Programs search the text for INVALID_RECEIPT_HANDLE, as Apache's
    proxy writes it, so the text contains it."""
    if code == ErrorCode.INVALID_RECEIPT_HANDLE and message:
        message = f"{message} (INVALID_RECEIPT_HANDLE)"
    return Status(code=protocol_code(code), message=message or code_name(code))


def status_of(error: BaseException, call_name: str) -> Status:
    """Return the status for an error that ended a call. An unexpected error gets a number that is in the log too."""
    if isinstance(error, MessagingError):
        return make_status(error.code, error.message)
    number = secrets.token_hex(4)
    _log.error("%s failed unexpectedly, error %s", call_name, number, exc_info=error)
    return make_status(ErrorCode.INTERNAL_SERVER_ERROR, f"unexpected error; the server's log has it as error {number}")


def overall_status(entries: "Sequence[Status]") -> Status:
    """Return the status for a whole answer: the common one, or MULTIPLE_RESULTS."""
    codes = {entry.code for entry in entries}
    if len(codes) == 1:
        return entries[0]
    return make_status(ErrorCode.MULTIPLE_RESULTS, "the entries have different results")
