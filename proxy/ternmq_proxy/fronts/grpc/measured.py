"""Measures the durations and outcomes of calls."""

import time
from collections.abc import Callable
from typing import Final, Self

from ternmq_protos.v2 import definition_pb2

# The outcome of a call that gets no answer.
UNPARSED: Final = "UNPARSED"
CUT: Final = "CUT"
_CODE_NAMES: Final = {number: name for name, number in definition_pb2.Code.items()}


def code_name(code: int) -> str:
    """Return the protocol's name of a status code, or its number if it has none."""
    return _CODE_NAMES.get(code) or str(code)


class CallMeasurement:
    """Measures one call, until the `with` block ends, or `end_call` if `is_streaming` is set. It is a class because a
    generator costs several times as much."""

    __slots__ = ("_began", "_name", "_tell", "code", "is_streaming")

    def __init__(self, tell: Callable[[str, str, float], None], name: str) -> None:
        self._tell = tell
        self._name = name
        self._began = 0.0
        self.code = UNPARSED
        self.is_streaming = False

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.is_streaming:
            self.end_call()

    def end_call(self) -> None:
        """Record the end of the call."""
        self._tell(self._name, self.code, time.perf_counter() - self._began)
