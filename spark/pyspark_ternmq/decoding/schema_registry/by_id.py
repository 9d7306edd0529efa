"""Keeps the decoders that were created from schemas of a registry, by schema id.

Fetched     each id once in a worker, at the first body that has it. Ids that the registry does not know are requested
            again after a minute: a body may be faster than a registry's copy.
Limits      the oldest go when there are too many: bodies can have any id.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark_ternmq.decoding.limits import BrokenBody, WrongSchema
from pyspark_ternmq.decoding.schema_registry.registry import NoSuchSchema

SCHEMAS_MAX, UNKNOWN_MAX = 1_000, 100_000
UNKNOWN_FOR_S = 60.0
T = TypeVar("T")


class ById(Generic[T]):
    """The results of `make` for the latest `schemas_max` ids; its errors are kept too."""

    def __init__(
        self,
        make: Callable[[int], T],
        *,
        now_s: Callable[[], float] = time.monotonic,
        schemas_max: int = SCHEMAS_MAX,
    ) -> None:
        self._make, self._now_s, self._schemas_max = make, now_s, schemas_max
        self._lock = threading.Lock()
        self._known = OrderedDict[int, T | WrongSchema]()
        self._unknown = OrderedDict[int, float]()

    def get(self, number: int) -> T:
        """Return the schema of an id. Raises BrokenBody if there is none, or if it can't be used."""
        found = self._known.get(number)
        if found is None:
            with self._lock:
                found = self._known.get(number) or self._create_decoder(number)
        if isinstance(found, WrongSchema):
            raise BrokenBody(f"schema {number}: {found}")
        return found

    def _create_decoder(self, number: int) -> T | WrongSchema:
        requested_s = self._unknown.get(number)
        if requested_s is not None and self._now_s() - requested_s < UNKNOWN_FOR_S:
            raise BrokenBody(f"the schema registry has no schema {number}")
        try:
            found: T | WrongSchema = self._make(number)
        except WrongSchema as error:
            found = error
        except NoSuchSchema:
            _keep_latest(self._unknown, number, self._now_s(), UNKNOWN_MAX)
            raise BrokenBody(f"the schema registry has no schema {number}") from None
        _keep_latest(self._known, number, found, self._schemas_max)
        return found


def _keep_latest(kept: OrderedDict[int, T], number: int, value: T, limit: int) -> None:
    """Drop the oldest beyond a limit."""
    kept.pop(number, None)
    kept[number] = value
    if len(kept) > limit:
        kept.popitem(last=False)
