"""The version of this process."""

from functools import cache
from importlib.metadata import version


@cache
def own_version() -> str:
    """What was installed when it was first asked, which servers do as they begin: the package's files are read once,
    not on the event loop for each who asks, and another version that is installed meanwhile is not this process's."""
    return version("ternmq")
