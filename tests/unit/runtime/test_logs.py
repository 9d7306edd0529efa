"""A client cannot write a line of the log, whatever it calls itself; libraries say little unless they are named."""

import json
import logging
import sys
from collections.abc import Iterator

import hpack
import pytest

from ternmq_common.process.log_levels import OWN_PACKAGES
from ternmq_common.server_settings import LogFormat
from ternmq_runtime.logs.log_output import _TEXT, JsonFormatter, TextFormatter, configure_logging

FORGED = "x\n2026-08-01 12:00:00,000 ERROR   ternmq: the disk is gone\x1b[2J\x9b31m\u2028\x7f"


OTHERS = ("hpack.hpack", "asyncio", "alembic.runtime", "psycopg.pool")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test configures is as before afterwards."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    for package in OWN_PACKAGES:  # `ternmq store` keeps ternmq_broker's to itself
        monkeypatch.setattr(logging.getLogger(package), "propagate", True)
    loggers = [logging.getLogger(name) for name in ("root", *OWN_PACKAGES, "hpack", "alembic")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


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


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_what_a_server_writes_is_escaped(log_format: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", log_format)
    logging.getLogger("ternmq").warning("client %s is gone", FORGED)
    (line,) = capsys.readouterr().err.splitlines()
    assert "is gone" in line
    assert line.isprintable()


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_of_several_processes_each_line_says_whose_it_is(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info", log_format, "worker-3")
    logging.getLogger("ternmq").warning("hello")
    (line,) = capsys.readouterr().err.splitlines()
    if log_format is LogFormat.JSON:
        assert json.loads(line)["process"] == "worker-3"
    else:
        assert "WARNING worker-3 ternmq: hello" in line


def shown(levels: str, capsys: pytest.CaptureFixture[str], *loggers: str) -> set[str]:
    """`logger level` of everything that is logged of what these loggers say at each level."""
    configure_logging(levels, LogFormat.JSON)
    for name in loggers:
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "hello")
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    return {f"{line['logger']} {line['level']}" for line in lines}


@pytest.mark.usefixtures("logs")
def test_debug_is_of_our_own_packages_only(capsys: pytest.CaptureFixture[str]) -> None:
    ours = tuple(f"{package}.module" for package in OWN_PACKAGES)
    expected = {f"{name} {level}" for name in ours for level in ("debug", "info", "warning", "error")}
    expected |= {f"{name} {level}" for name in OTHERS for level in ("warning", "error")}
    assert shown("debug", capsys, *ours, *OTHERS) == expected


@pytest.mark.usefixtures("logs")
def test_at_error_libraries_say_no_more_than_we(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("error", capsys, "ternmq_proxy.server.main", "asyncio") == {
        "ternmq_proxy.server.main error",
        "asyncio error",
    }


@pytest.mark.usefixtures("logs")
def test_a_package_that_is_named_has_its_own_level(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown("warning,ternmq_proxy=debug,hpack=info", capsys, "ternmq_proxy.a", "ternmq_broker.a", "hpack.table")
    assert said == {
        "ternmq_proxy.a debug", "ternmq_proxy.a info", "ternmq_proxy.a warning", "ternmq_proxy.a error",
        "ternmq_broker.a warning", "ternmq_broker.a error",
        "hpack.table info", "hpack.table warning", "hpack.table error",
    }  # fmt: skip


@pytest.mark.usefixtures("logs")
def test_root_names_all_that_has_no_other_level(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown("error,root=info", capsys, "ternmq.client", "asyncio")
    assert said == {"ternmq.client error", "asyncio info", "asyncio warning", "asyncio error"}


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_no_secret_is_logged_whoever_says_it_at_whatever_level(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("debug,root=debug,hpack=debug", log_format)
    headers = (
        (b"authorization", b"MQv2-HMAC-SHA1 Credential=ak, Signature=s3cr3t"),
        (b"x-mq-session-token", b"s3cr3t"),
    )
    encoder, decoder = hpack.Encoder(), hpack.Decoder()
    for huffman in (True, False):
        block = encoder.encode(headers, huffman=huffman)
        assert decoder.decode(block)
        logging.getLogger("asyncio").debug("received %r", block)
        logging.getLogger("asyncio").debug("received %r", bytearray(block))
    try:
        int("postgresql://ternmq:s3cr3t@db/ternmq")
    except ValueError:
        logging.getLogger("ternmq_registry").exception("the registry %s is away", "postgresql://u:s3cr3t@db/t")
    written = capsys.readouterr().err
    assert "authorization" in written
    assert "postgresql://ternmq:***@db/ternmq" in written
    assert "s3cr3t" not in written
