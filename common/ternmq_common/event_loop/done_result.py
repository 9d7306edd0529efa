"""A result that is there when it is awaited."""

from collections.abc import Generator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class DoneResult(Generic[T]):
    """A result that is there already: awaiting it does not wait, and a remote call is answered without a task."""

    __slots__ = ("result",)

    def __init__(self, result: T) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, None, T]:
        return self.result
        yield


DONE: Final = DoneResult(None)
