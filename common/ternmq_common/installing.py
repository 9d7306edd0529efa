"""How to get packages that are missing: TernMQ is in no package index, so it is installed from a checkout of it."""


def install_hint(extras: str) -> str:
    """The end of an error about a package that one of the `extras` of pyproject.toml brings."""
    return f"in a checkout of TernMQ, run pip install '.[{extras}]'"
