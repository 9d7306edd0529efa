"""Refusals in one line: what Spark passes on of an error of ours is its words, without a Python traceback.

Where code of ours runs, in Python workers of Spark's, an error ends the process, and Spark sends its traceback to Java,
where it is in front of the text. A wrong option, a loss, or what a broker refuses has nothing to find in it.
Anything else keeps its traceback: that is a mistake, of ours or of the query's.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.source.offsets.loss import DataLoss
from ternmq import ClientError

REFUSALS = (WrongOption, DataLoss, WriteFailed, ClientError)
# Spark's own switch, which it looks at when it sends an error.
_HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def in_one_line() -> Iterator[None]:
    """Around what Spark calls; as a decorator too."""
    try:
        yield
    except REFUSALS:
        if _is_worker():
            os.environ[_HIDE] = "1"  # of this process, which ends with the error
        raise


def _is_worker() -> bool:
    """Whether this is a process of Spark's that runs parts of queries: no other one imports this module."""
    return "pyspark.worker_util" in sys.modules
