"""Compares the lake with the flights that the broker acknowledged.

The first part of the demo proves that every flight came back from the broker; this proves that it is in the lake. The
broker counts messages, the ledger flights, and Spark rows, independently of each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ternmq_command.demo.ledger import Ledger
from ternmq_command.terminal.output import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeAccount:
    """The counts of a comparison; `lost` flights were acknowledged, but are not in the lake."""

    messages: int
    rows: int
    late: int
    malformed: int
    flights: int
    lost: int

    @classmethod
    def count_flights(
        cls, ledger: Ledger, numbers: Iterable[int], *, messages: int, late: int, malformed: int
    ) -> "LakeAccount":
        """Count the flights of the lake; `numbers` are their row numbers, one for each row of the lake."""
        seen, rows = bytearray(ledger.rows), 0
        for number in numbers:
            seen[number] = 1
            rows += 1
        lost = sum(sent and not there for sent, there in zip(ledger.sent, seen, strict=True))
        return cls(messages=messages, rows=rows, late=late, malformed=malformed, flights=sum(seen), lost=lost)

    @property
    def is_right(self) -> bool:
        """Whether every flight is in the lake, and every message is one row."""
        return not (self.lost or self.late or self.malformed) and self.messages == self.rows

    def summary_text(self) -> str:
        parts = [f"{self.messages:,} messages in the topic, {self.rows:,} rows in the lake"]
        if self.flights == self.rows:
            parts[0] += ", each flight once"
        else:
            # If the answer to a request was lost, the demo can't know whether the broker stored it.
            parts[0] += f", {self.flights:,} flights"
            parts.append(
                f"{format_count(self.rows - self.flights, 'row')} more than flights, sent again after answers that "
                "got lost"
            )
        if self.lost:
            parts.append(f"LOST: {format_count(self.lost, 'flight')} that the broker acknowledged")
        elif self.messages != self.rows + self.late + self.malformed:
            parts.append("the numbers of messages and rows DIFFER")
        parts.append(f"{self.late:,} late, {self.malformed:,} malformed")
        return "; ".join(parts)
