"""A full-screen terminal display that is redrawn until Ctrl-C or q."""

import contextlib
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from ternmq_command.terminal.printing import echo_control, printable_line

# The alternate screen, so that the terminal shows its former content afterwards; and no cursor.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_KEYS_MAX = 64
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class TerminalScreen:
    """Draws on standard output, which is a terminal, and reads keys from standard input if that is one too."""

    def __init__(self) -> None:
        self._reads_keys = False

    @classmethod
    @contextlib.contextmanager
    def open_screen(cls) -> "Iterator[TerminalScreen]":
        """Open the screen, and restore the terminal at the end."""
        screen = cls()
        with screen._unbuffered_keys():
            echo_control(_ENTER)
            try:
                yield screen
            finally:
                echo_control(_LEAVE)

    def size(self) -> tuple[int, int]:
        """Return how many columns and rows `draw_lines` has now."""
        columns, rows = shutil.get_terminal_size()
        return max(1, columns), max(1, rows - 1)

    def draw_lines(self, lines: Sequence[str]) -> None:
        """Draw the lines, cut to the size that the terminal has now."""
        echo_control(render_screen(lines, *shutil.get_terminal_size()))

    def wait_for_quit(self, seconds: float) -> bool:
        """Wait for some seconds, or until q is pressed; return whether it was."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._reads_keys:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                keys = os.read(sys.stdin.fileno(), _KEYS_MAX)
                if b"q" in keys.lower():
                    return True
                self._reads_keys = keys != b""  # else the terminal is gone
        return False

    @contextlib.contextmanager
    def _unbuffered_keys(self) -> Iterator[None]:
        """Let the terminal pass keys on one by one, without echo."""
        try:
            import termios
            import tty
        except ImportError:  # Windows
            yield
            return
        if not sys.stdin.isatty():
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        self._reads_keys = True
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def render_screen(lines: Sequence[str], columns: int, rows: int) -> str:
    """Return the text that draws these lines on a terminal of that size: each is cut, and the last row stays free."""
    shown = [printable_line(line)[: max(1, columns)] for line in lines[: max(1, rows - 1)]]
    return _HOME + "".join(f"{line}{_REST_OF_LINE}\r\n" for line in shown) + _REST_OF_SCREEN
