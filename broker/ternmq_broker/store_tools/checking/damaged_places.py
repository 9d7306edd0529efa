"""The places of the log that have no whole record, and which messages were there according to the index."""

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from ternmq_broker.store_tools.checking.findings import NAMED_MAX, MessagePlace, StoreFinding, StoreFindings, StorePart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.log.log_recovery import FoundDamage, Range


class DamagedPlaces:
    """Damage that was accepted before, and damage that is found while the log is walked."""

    def __init__(self, accepted: "Iterable[Range]") -> None:
        self._ranges = sorted(accepted)
        self._accepted = set(self._ranges)
        self._found: dict[Range, FoundDamage] = {}
        self._messages: dict[Range, list[MessagePlace]] = {}
        self._more: dict[Range, int] = {}

    @property
    def has_any(self) -> bool:
        return bool(self._ranges)

    @property
    def accepted_places(self) -> "list[Range]":
        return sorted(self._accepted)

    @property
    def found_places(self) -> "list[Range]":
        """The damage that was found and is no torn tail."""
        return sorted(place for place, damage in self._found.items() if not damage.is_torn)

    def add_damage(self, damage: "FoundDamage") -> None:
        place = (damage.begin, damage.end)
        self._found[place] = damage
        insort(self._ranges, place)

    def place_holding(self, log_offset: int) -> "Range | None":
        """Return the damaged place that contains that byte."""
        at = bisect_right(self._ranges, (log_offset, 1 << 64)) - 1
        return self._ranges[at] if at >= 0 and log_offset < self._ranges[at][1] else None

    def is_accepted(self, log_offset: int) -> bool:
        """Tell whether a start has stepped over that byte, with permission."""
        return self.place_holding(log_offset) in self._accepted

    def name_message(self, place: "Range", message: MessagePlace) -> None:
        """Note that the message was in that place."""
        names = self._messages.setdefault(place, [])
        if len(names) < NAMED_MAX:
            names.append(message)
        else:
            self._more[place] = self._more.get(place, 0) + 1

    def count_lost_messages(self) -> int:
        """Return how many lost messages the index names."""
        return sum(map(len, self._messages.values())) + sum(self._more.values())

    def report_to(self, findings: StoreFindings, log_start: int) -> None:
        """Add a finding for each place behind the log's start."""
        for place in self._ranges:
            begin, end = place
            if end <= log_start:
                continue
            damage = self._found.get(place)
            findings.add_finding(
                StoreFinding(
                    StorePart.LOG,
                    f"log offset {begin}",
                    "was damaged, and stepped over by a start" if damage is None else damage.reason,
                    begin,
                    end - begin,
                    tuple(self._messages.get(place, ())),
                    self._more.get(place, 0),
                    accepted=place in self._accepted,
                    harmless=damage is not None and damage.is_torn,
                )
            )
