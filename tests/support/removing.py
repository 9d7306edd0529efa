"""Removes a folder in which somebody else is writing."""

import shutil
from contextlib import suppress
from pathlib import Path


def remove_folder(folder: Path) -> None:
    """As `rm -rf`, again while files come and go in it."""
    while folder.exists():
        with suppress(OSError):
            shutil.rmtree(folder)
