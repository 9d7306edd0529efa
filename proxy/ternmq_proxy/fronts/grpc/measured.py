"""How long calls take, and their outcomes."""

import time
from collections.abc import Callable
from typing import Self

from ternmq_protos.v2 import definition_pb2

# The outcome of a call that gets no answer.
UNPARSED, CUT = "UNPARSED", "CUT"
_CODE_NAMES = {number: name for name, number in definition_pb2.Code.items()}


def code_name(code: int) -> str:
    """The protocol's name of a status code; its number if it has none."""
    return _CODE_NAMES.get(code) or str(code)


class CallMeasurement:
    """Tells of one call; with `goes_on` not before `end` is called. A class, as a generator costs several times as
    much."""

    __slots__ = ("_began", "_name", "_tell", "code", "goes_on")

    def __init__(self, tell: Callable[[str, str, float], None], name: str) -> None:
        self._tell = tell
        self._name = name
        self._began = 0.0
        self.code = UNPARSED
        self.goes_on = False

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.goes_on:
            self.end_call()

    def end_call(self) -> None:
        """The call has ended."""
        self._tell(self._name, self.code, time.perf_counter() - self._began)
