"""How far a long call is: a line for a person, and one in the end for everybody."""

import io
import sys
import time

import pytest

from ternmq_command.terminal.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is that of its only item."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def test_a_person_sees_it_now_and_then_and_how_it_ended(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with ProgressLine("exported", "of orders", total=4000) as progress:
        for _ in range(4):
            clock[0] += 0.25
            progress.add_messages(1000)
    assert terminal.getvalue() == (
        "\rexported 2,000 of 4,000 messages, 4,000/s \rexported 4,000 of 4,000 messages, 4,000/s \n"
        "exported 4,000 messages of orders in 1.00 s\n"
    )


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_program_sees_the_end_alone(monkeypatch: pytest.MonkeyPatch, clock: list[float], *, is_quiet: bool) -> None:
    monkeypatch.setattr(sys, "stderr", written := Terminal() if is_quiet else io.StringIO())
    with ProgressLine("imported", "to orders", is_quiet=is_quiet) as progress:
        clock[0] += 10
        progress.add_messages(1)
    assert written.getvalue() == "imported 1 message to orders in 10.00 s\n"


@pytest.mark.usefixtures("clock")
def test_of_a_failure_before_the_first_message_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="full"), ProgressLine("exported", "of orders"):
        raise OSError("full")
    assert capsys.readouterr().err == ""
