"""How much an answer without pages may hold, and how it says that it was cut."""

from typing import TYPE_CHECKING

from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.activities.status import OK, status

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import Status

ENTRIES_MAX = 1000


def status_of_cut(things: str, *, is_cut: bool, silent: "list[str] | None" = None) -> "Status":
    """OK, with a word on what is not in the answer: beyond the bound, or of processes of this server that gave none."""
    missing = [f"the first {ENTRIES_MAX} {things} only"] if is_cut else []
    if silent:
        missing.append(f"without those of {', '.join(silent)}, which did not answer")
    return status(definition_pb2.OK, f"OK: {'; '.join(missing)}") if missing else OK
