"""A client cannot write a line of the log, whatever it calls itself."""

import json
import logging
import sys

import pytest

from ternmq_common.observability.logs import _TEXT, JsonFormatter, TextFormatter, configure_logging
from ternmq_common.server_settings import LogFormat, LogLevel

FORGED = "x\n2026-08-01 12:00:00,000 ERROR   ternmq: the disk is gone\x1b[2J\x9b31m\u2028\x7f"


def record(*, error: Exception | None = None) -> logging.LogRecord:
    info = None
    if error is not None:
        try:
            raise error
        except type(error):
            info = sys.exc_info()
    return logging.LogRecord("ternmq", logging.INFO, __file__, 1, "client %s is gone", (FORGED,), info)


def test_a_forged_line_stays_within_its_own() -> None:
    text = TextFormatter(_TEXT).format(record())
    assert "\n" not in text
    assert text.endswith(
        r"client x\n2026-08-01 12:00:00,000 ERROR   ternmq: the disk is gone\x1b[2J\x9b31m\u2028\x7f is gone"
    )


def test_a_traceback_keeps_its_lines_and_none_of_them_begins_as_a_record_does() -> None:
    first, *rest = TextFormatter(_TEXT).format(record(error=ValueError(FORGED))).split("\n")
    assert "client x" in first
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in rest)
    assert any("the disk is gone\\x1b[2J" in line for line in rest)


def test_a_traceback_that_another_formatter_left_in_the_record_is_escaped_too() -> None:
    seen = record(error=ValueError(FORGED))
    logging.Formatter().format(seen)
    assert "\x1b" not in TextFormatter(_TEXT).format(seen)


def test_a_json_line_has_the_text_as_it_was_and_no_control_character() -> None:
    line = JsonFormatter().format(record(error=ValueError(FORGED)))
    assert line.isprintable()
    assert line.isascii()
    fields = json.loads(line)
    assert fields["message"] == f"client {FORGED} is gone"
    assert FORGED in fields["error"]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_what_a_server_writes_is_escaped(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    before, alembic = root.level, logging.getLogger("alembic").level
    try:
        configure_logging(LogLevel.INFO, log_format)
        logging.getLogger("ternmq").warning("client %s is gone", FORGED)
    finally:
        for handler in root.handlers:
            handler.flush()
        root.setLevel(before)
        logging.getLogger("alembic").setLevel(alembic)
    (line,) = capsys.readouterr().err.splitlines()
    assert "is gone" in line
    assert line.isprintable()


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_of_several_processes_each_line_says_whose_it_is(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    before, alembic = root.level, logging.getLogger("alembic").level
    try:
        configure_logging(LogLevel.INFO, log_format, "worker-3")
        logging.getLogger("ternmq").warning("hello")
    finally:
        root.setLevel(before)
        logging.getLogger("alembic").setLevel(alembic)
    (line,) = capsys.readouterr().err.splitlines()
    if log_format is LogFormat.JSON:
        assert json.loads(line)["process"] == "worker-3"
    else:
        assert "WARNING worker-3 ternmq: hello" in line
