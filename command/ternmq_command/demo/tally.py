"""Counts flights of the messages that came back, each row once."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

from ternmq_command.demo.batch_reports import FlightDelivery


class FlightTally:
    """Flights per origin, carrier and route, and delays per origin."""

    def __init__(self) -> None:
        self.origins: Counter[str] = Counter()
        self.carriers: Counter[str] = Counter()
        self.routes: Counter[str] = Counter()
        self.departed: Counter[str] = Counter()
        self.delay_minutes: Counter[str] = Counter()

    def add_flight(self, flight: FlightDelivery) -> None:
        self.origins[flight.origin] += 1
        self.carriers[flight.carrier] += 1
        self.routes[f"{flight.origin}-{flight.destination}"] += 1
        if flight.delay_minutes is not None:  # a flight that was cancelled has none
            self.departed[flight.origin] += 1
            self.delay_minutes[flight.origin] += flight.delay_minutes

    def as_json(self) -> dict[str, dict[str, int]]:
        return {name: dict(counter) for name, counter in vars(self).items()}

    @classmethod
    def from_json(cls, counters: Mapping[str, Any]) -> Self:
        tally = cls()
        for name in vars(tally):
            getattr(tally, name).update(counters[name])
        return tally
