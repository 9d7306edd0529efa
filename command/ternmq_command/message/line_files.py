"""Opens files of JSON lines, compressed by gzip if their name ends in .gz; - is standard input or output.

Their errors are raised as WrongUsage.
"""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from typing import IO, cast

import click

from ternmq_command.message.message_lines import BadLine, ReadableFile
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.process.private_files import private_umask

STANDARD = "-"
# Messages are mostly repetitive text: a higher level would take longer and save little.
COMPRESS_LEVEL = 6


@contextlib.contextmanager
def open_for_writing(name: str) -> Iterator[IO[bytes]]:
    """Open a file for writing, readable only by this user; it is complete when the block has ended."""
    try:
        with private_umask(), click.open_file(name, "wb") as file:
            if not _is_compressed(name):
                yield cast("IO[bytes]", file)
                return
            with gzip.GzipFile(fileobj=cast("IO[bytes]", file), mode="wb", compresslevel=COMPRESS_LEVEL) as packed:
                yield cast("IO[bytes]", packed)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WrongUsage(f"can't write {name}: {error.strerror or error}") from None


@contextlib.contextmanager
def open_for_reading(name: str) -> Iterator[ReadableFile]:
    """Open a file for reading; its name is added to a BadLine that the block raises."""
    shown = "standard input" if name == STANDARD else name
    try:
        with click.open_file(name, "rb") as file:
            yield cast("ReadableFile", gzip.GzipFile(fileobj=cast("IO[bytes]", file)) if _is_compressed(name) else file)
    except BadLine as bad:
        raise WrongUsage(f"{shown}, {bad}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WrongUsage(f"can't read {shown}: it is no complete gzip file ({error})") from None
    except OSError as error:
        raise WrongUsage(f"can't read {shown}: {error.strerror or error}") from None


def _is_compressed(name: str) -> bool:
    return name.endswith(".gz")
