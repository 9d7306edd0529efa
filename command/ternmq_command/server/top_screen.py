"""How `ternmq top` lays topics and groups out on a screen: both are seen on a screen of any size, and so are figures
beside a long name. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ternmq_command.terminal.output import cell, table

ELLIPSIS = "…"
NAME_MIN = 10
"""Names are not cut below; on a screen that is narrower yet, figures are."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one kind, the name first; `nothing` is told where there are none."""

    rows: Sequence[Row]
    nothing: str

    @property
    def height(self) -> int:
        """Lines of all of it."""
        return 1 + len(self.rows)

    def lines(self, columns: int, height: int) -> list[str]:
        """As much as fits into so many lines: the first rows, and how many more there are."""
        if not self.rows:
            return [self.nothing][:height]
        shown = len(self.rows) if self.height <= height else max(1, height - 2)
        lines = table(with_short_names(self.rows[:shown], columns)).split("\n")
        if shown < len(self.rows):
            lines.append(f"{ELLIPSIS} and {len(self.rows) - shown} more")
        return lines[: max(0, height)]


def laid_out(head: Sequence[str], parts: tuple[Part, Part], columns: int, rows: int) -> list[str]:
    """Lines for so many rows: the head, and the parts, each below an empty line."""
    room = rows - len(head) - len(parts)
    lines = list(head)
    for part, height in zip(parts, heights(parts[0].height, parts[1].height, room), strict=True):
        if height > 0:
            lines += ["", *part.lines(columns, height)]
    return lines


def heights(first: int, second: int, room: int) -> tuple[int, int]:
    """How many lines each of two has that want so many: half of the room, and what the other one leaves."""
    for_second = min(second, max(room // 2, room - first))
    return min(first, room - for_second), for_second


def with_short_names(rows: Sequence[Row], columns: int) -> list[Row]:
    """The rows, with names that leave all figures on a screen of that width."""
    name = next(iter(rows[0]))
    over = max(map(len, table(rows).split("\n"))) - columns
    longest = max(len(name), *(len(cell(row[name])) for row in rows))
    limit = max(NAME_MIN, longest - over)
    return [{**row, name: cut(cell(row[name]), limit)} for row in rows]


def cut(text: str, characters: int) -> str:
    """The text, or its beginning and its end, by which long names differ, around an ellipsis, in so many characters."""
    if len(text) <= characters:
        return text
    end = (characters - 1) // 2
    return f"{text[: characters - 1 - end]}{ELLIPSIS}{text[len(text) - end :]}"
