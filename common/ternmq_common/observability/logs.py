"""Logs on standard error, as text for people or as one JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime

from ternmq_common.server_settings import LogFormat, LogLevel


def configure_logging(level: LogLevel, log_format: LogFormat) -> None:
    """Send every record of that level or above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if log_format is LogFormat.JSON
        else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.name, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells every step of opening a database


class JsonFormatter(logging.Formatter):
    """A record as JSON: time (UTC), level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)
