"""An extension of Griffe that converts this project's docstrings to Markdown.

Aligned columns, a word and its meaning, become definition lists; the rest is Markdown already.

    message_group       FIFO: messages of one group are delivered one after the other
    delay               DELAY: how long after its sending it is delivered,
                        by this machine's clock
"""

import re
from collections.abc import Iterator
from typing import Any

from griffe import Extension, Object

_ROW = re.compile(r"(\S+(?: \S+){0,3}) {2,}(\S.*)")


class Columns(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401
        if obj.docstring is not None:
            obj.docstring.value = with_definitions(obj.docstring.value)


def with_definitions(text: str) -> str:
    """Convert columns at the begin of lines to definitions."""
    return "\n".join(_lines(text.splitlines()))


def _lines(lines: list[str]) -> Iterator[str]:
    column: int | None = None
    for line in lines:
        row = _ROW.fullmatch(line)
        if row is not None:
            column = row.start(2)
            yield from ("", f"`{row[1].strip('`')}`", f":   {row[2]}")
        elif column is not None and line[:column].isspace():
            yield f"    {line.strip()}"
        else:
            column = None
            yield line
