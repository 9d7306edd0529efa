"""How the lines of this package look in Spark's logs.

Spark runs the Python of a data source in processes of its own, whose standard error is in the log of the driver or the
executor. Logging is not configured there, and Python would write the words alone: without level and logger nobody can
look for a warning. A process that has a handler already keeps it.
"""

import logging

_PACKAGE = "pyspark_ternmq"
# As Spark's own lines on a console.
_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TIME = "%y/%m/%d %H:%M:%S"


def log_as_spark() -> None:
    """Write the package's warnings with time, level and logger, unless the process has logging of its own."""
    logger = logging.getLogger(_PACKAGE)
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LINE, _TIME))
    logger.addHandler(handler)
