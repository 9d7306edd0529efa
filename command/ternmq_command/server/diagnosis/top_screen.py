"""The screen layout of `ternmq top`: topics and groups both show on a screen of any size, with the figures of long
names.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ternmq_command.terminal.output import format_cell, format_table

ELLIPSIS = "…"
NAME_MIN = 10
"""Names are not cut below this length; on a narrower screen, figures are cut."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ScreenPart:
    """Rows of one kind, the name first; `nothing` is shown if there are none."""

    rows: Sequence[Row]
    nothing: str

    @property
    def height(self) -> int:
        """The number of lines of all rows and the head."""
        return 1 + len(self.rows)

    def format_lines(self, columns: int, height: int) -> list[str]:
        """Return as much as fits into that height: the first rows, and how many more there are."""
        if not self.rows:
            return [self.nothing][:height]
        shown = len(self.rows) if self.height <= height else max(1, height - 2)
        lines = format_table(shorten_names(self.rows[:shown], columns)).split("\n")
        if shown < len(self.rows):
            lines.append(f"{ELLIPSIS} and {len(self.rows) - shown} more")
        return lines[: max(0, height)]


def lay_out_screen(head: Sequence[str], parts: tuple[ScreenPart, ScreenPart], columns: int, rows: int) -> list[str]:
    """Return the lines of a screen with so many rows: the head, and the parts, each below an empty line."""
    room = rows - len(head) - len(parts)
    lines = list(head)
    for part, height in zip(parts, share_height(parts[0].height, parts[1].height, room), strict=True):
        if height > 0:
            lines += ["", *part.format_lines(columns, height)]
    return lines


def share_height(first: int, second: int, room: int) -> tuple[int, int]:
    """Divide the lines between two parts of these heights: each gets half, and what the other one leaves."""
    for_second = min(second, max(room // 2, room - first))
    return min(first, room - for_second), for_second


def shorten_names(rows: Sequence[Row], columns: int) -> list[Row]:
    """Return the rows with names cut so that all figures fit on a screen of that width."""
    name = next(iter(rows[0]))
    over = max(map(len, format_table(rows).split("\n"))) - columns
    longest = max(len(name), *(len(format_cell(row[name])) for row in rows))
    limit = max(NAME_MIN, longest - over)
    return [{**row, name: cut_middle(format_cell(row[name]), limit)} for row in rows]


def cut_middle(text: str, characters: int) -> str:
    """Cut a text to so many characters: its beginning and end, by which long names differ, around an ellipsis."""
    if len(text) <= characters:
        return text
    end = (characters - 1) // 2
    return f"{text[: characters - 1 - end]}{ELLIPSIS}{text[len(text) - end :]}"
