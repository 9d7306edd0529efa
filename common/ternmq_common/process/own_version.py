"""The version of this process."""

from functools import cache
from importlib.metadata import version


@cache
def own_version() -> str:
    """The version that was installed at the first call, which servers make at their start.

    The package's files are read once, and not on the event loop; another version that is installed meanwhile is not
    this process's.
    """
    return version("ternmq")
