"""A new registry in a file, as a copy of the first that this process made: migrations take longer than most tests."""

import tempfile
from functools import cache
from pathlib import Path

from ternmq_registry.registry import Registry


def put_new_registry(path: Path) -> None:
    """Leave a registry there that nobody has used yet, unless there is one already."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(_new_registry())


@cache
def _new_registry() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registry.db"
        Registry.open_sqlite(path).close()
        return path.read_bytes()
