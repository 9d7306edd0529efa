"""The refusal of a query, as the last line that a script prints.

Spark says ours at the beginning of its error (`refusals.py`), and goes on with the query's plan, and Python prints that
below its own traceback. The user reads it again at the end. In notebooks and shells, which show
errors in their own way, nothing changes.
"""

import re
import sys
from types import TracebackType

_REFUSAL = re.compile(r"\b(?:pyspark_)?ternmq(?:\.\w+)+: (?P<words>[^\n]+)")


def refusal_in(text: str) -> str | None:
    """The words of a refusal of the source or the sink in an error of Spark's; None if there is none."""
    match = _REFUSAL.search(text)
    return match["words"].strip() if match else None


def print_refusals_last() -> None:
    """Have a script that ends with an error of Spark's say the refusal in it once more."""
    before = sys.excepthook

    def print_refusal(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        if kind.__module__.startswith("pyspark.") and (words := refusal_in(str(error))) is not None:
            sys.stderr.write(f"ternmq: {words}\n")

    sys.excepthook = print_refusal
