"""How an answer without pages says that it was cut."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import Status


def status_of_cut(things: str, cut_at: int | None = None, silent: "list[str] | None" = None) -> "Status":
    """OK, with a word on what is not in the answer: beyond the bound, or of processes of this server that gave none."""
    missing = [] if cut_at is None else [f"the first {cut_at} {things} only"]
    if silent:
        missing.append(f"without those of {', '.join(silent)}, which did not answer")
    return make_status(ErrorCode.OK, f"OK: {'; '.join(missing)}") if missing else OK
