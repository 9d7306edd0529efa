"""The reports of a consumer's process to the demo: one line of JSON per received batch.


Line   {"acked": true, "flights": [[row, latency_ms, origin, destination, carrier, departure delay or null], ...]}
"""

import json
from dataclasses import dataclass
from typing import NamedTuple


class FlightDelivery(NamedTuple):
    """One delivery; `latency_ms` is from the born timestamp at the producer to the arrival at the consumer."""

    row: int
    latency_ms: float
    origin: str
    destination: str
    carrier: str
    delay_minutes: int | None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One received batch, and whether the broker accepted its acknowledgement."""

    flights: list[FlightDelivery]
    acked: bool

    def encode_line(self) -> bytes:
        return json.dumps({"acked": self.acked, "flights": self.flights}, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode_line(cls, line: bytes) -> "BatchReport":
        fields = json.loads(line)
        return cls([FlightDelivery(*flight) for flight in fields["flights"]], fields["acked"])
