"""Logs to standard error, as text for people or as one JSON object a line.

Secrets are masked, at any level and in every logger (`masking.py`). Bytes from the wire are only counted, since a
header block hides its fields from the mask. Texts of clients are escaped: a record is one line; only a
traceback has more, and those are indented. So a line that begins with a time is a real record, not text from a client.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from ternmq_common.printable import escape_json, escape_line, escape_lines
from ternmq_common.process.log_levels import parse_log_levels
from ternmq_common.process.masking import mask_secrets
from ternmq_common.server_settings import LogFormat
from ternmq_runtime.logs import log_control

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def configure_logging(levels: str, log_format: LogFormat, process: str = "") -> None:
    """Log to standard error at these levels (`log_levels.py`). Each record names its `process`, if several write
    there."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter(process))
    else:
        handler.setFormatter(TextFormatter(_TEXT.replace("%(name)s", f"{process} %(name)s") if process else _TEXT))
    parsed = parse_log_levels(levels)
    logging.basicConfig(level=parsed.of_others.name, handlers=[handler], force=True)
    log_control.apply_levels(parsed)


class TextFormatter(logging.Formatter):
    """Formats a record as one line, and its traceback, if there is one, as indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        # Not `super().format`: it would use a traceback that another formatter left in the record, escaped or not.
        record.message = _format_message(record)
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [escape_line(self.formatMessage(record))]
        if record.exc_info:
            lines.append(_indent_lines(mask_secrets(self.formatException(record.exc_info))))
        if record.stack_info:
            lines.append(_indent_lines(mask_secrets(self.formatStack(record.stack_info))))
        return "\n".join(lines)


def _format_message(record: logging.LogRecord) -> str:
    arguments = record.args
    if isinstance(arguments, tuple):
        arguments = tuple(map(_hide_bytes, arguments))
    text = str(record.msg)
    return mask_secrets(text % arguments if arguments else text)


def _hide_bytes(argument: object) -> object:
    return f"<{len(argument)} bytes>" if isinstance(argument, bytes | bytearray | memoryview) else argument


def _indent_lines(text: str) -> str:
    return "\n".join(f"  {line}" for line in escape_lines(text).split("\n"))


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time (UTC), level, process if it has a name, logger, message, and the traceback if
    there is one."""

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._process = {"process": process} if process else {}

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **self._process,
            "logger": record.name,
            "message": _format_message(record),
        }
        if record.exc_info:
            fields["error"] = mask_secrets(self.formatException(record.exc_info))
        return escape_json(json.dumps(fields))
