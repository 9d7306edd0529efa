"""The ledger of the demo: acknowledged rows, received rows, and the figures of the report.

File    JSON beside the broker's data, replaced atomically; `clean` is false while a demo runs
Unclean a demo that was killed may have acknowledged rows that are not in its file, so it can't be continued
"""

import base64
import json
import time
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ternmq_command.demo.batch_reports import BatchReport
from ternmq_command.demo.tally import FlightTally


class UncleanLedger(Exception):
    """The demo that wrote the file was killed, so its counts may be incomplete."""


@dataclass(slots=True)
class RateSpan:
    """A count, and the time between its first and last increase in this run."""

    count: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    def add_count(self, count: int) -> None:
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        self.count += count

    @property
    def seconds(self) -> float:
        return self.last_s - self.first_s

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class BrokerKill:
    """The broker was killed when `consumed` flights had come back, and served again after `down_s`."""

    consumed: int
    down_s: float


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Counts for `rows` rows, one byte each.

    Invariants: `sent_count` and `consumed_count` are the numbers of ones in `sent` and `consumed`;
    `consumed_count <= deliveries`.
    """

    rows: int
    sent: bytearray
    consumed: bytearray
    sent_count: int = 0
    consumed_count: int = 0
    deliveries: int = 0
    tally: FlightTally = field(default_factory=FlightTally)
    kills: list[BrokerKill] = field(default_factory=list)

    # Of this run only.
    latencies_ms: "array[float]" = field(default_factory=lambda: array("d"))
    sending: RateSpan = field(default_factory=RateSpan)
    consuming: RateSpan = field(default_factory=RateSpan)
    by_consumer: dict[int, int] = field(default_factory=dict)
    unacked: int = 0
    resident_bytes: int = 0
    resident_bytes_most: int = 0

    @classmethod
    def create_empty(cls, rows: int) -> Self:
        return cls(rows=rows, sent=bytearray(rows), consumed=bytearray(rows))

    @property
    def duplicates(self) -> int:
        """The number of repeated deliveries."""
        return self.deliveries - self.consumed_count

    def add_sent(self, rows: list[int]) -> None:
        """Add rows that the broker acknowledged."""
        for row in rows:
            self.sent_count += not self.sent[row]
            self.sent[row] = 1
        self.sending.add_count(len(rows))

    def add_report(self, consumer: int, report: BatchReport) -> None:
        """Add rows that a consumer received."""
        for flight in report.flights:
            self.latencies_ms.append(flight.latency_ms)
            if not self.consumed[flight.row]:
                self.consumed[flight.row] = 1
                self.consumed_count += 1
                self.tally.add_flight(flight)
        count = len(report.flights)
        self.deliveries += count
        self.unacked += 0 if report.acked else count
        self.by_consumer[consumer] = self.by_consumer.get(consumer, 0) + count
        self.consuming.add_count(count)

    def add_resident(self, resident_bytes: int) -> None:
        self.resident_bytes = resident_bytes
        self.resident_bytes_most = max(self.resident_bytes_most, resident_bytes)

    def missing_rows(self, wanted: int) -> list[int]:
        """Return the rows below `wanted` that did not come back."""
        return [row for row in range(wanted) if not self.consumed[row]]

    def percentile_ms(self, percent: float) -> float:
        if not self.latencies_ms:
            return 0.0
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    def save_to(self, file: Path, *, clean: bool) -> None:
        fields = {
            "clean": clean,
            "rows": self.rows,
            "sent": _pack_flags(self.sent),
            "consumed": _pack_flags(self.consumed),
            "deliveries": self.deliveries,
            "tally": self.tally.as_json(),
            "kills": [[kill.consumed, kill.down_s] for kill in self.kills],
        }
        neighbour = file.with_suffix(".new")
        neighbour.write_text(json.dumps(fields))
        neighbour.replace(file)

    @classmethod
    def load_from(cls, file: Path) -> Self:
        fields = json.loads(file.read_text())
        if not fields["clean"]:
            raise UncleanLedger
        sent, consumed = _unpack_flags(fields["sent"]), _unpack_flags(fields["consumed"])
        return cls(
            rows=fields["rows"],
            sent=sent,
            consumed=consumed,
            sent_count=sum(sent),
            consumed_count=sum(consumed),
            deliveries=fields["deliveries"],
            tally=FlightTally.from_json(fields["tally"]),
            kills=[BrokerKill(*kill) for kill in fields["kills"]],
        )


def _pack_flags(flags: bytearray) -> str:
    return base64.b64encode(zlib.compress(flags, 1)).decode()


def _unpack_flags(text: str) -> bytearray:
    return bytearray(zlib.decompress(base64.b64decode(text)))
