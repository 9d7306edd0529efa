"""The same, with inputs chosen by coverage: atheris (libFuzzer) keeps what reaches new code, and mutates it.

Mutations are ours (`mutations.py`), for those of libFuzzer would hardly ever leave a frame whole.
"""

import contextlib
import sys
import zlib
from pathlib import Path

import atheris

from tests.fuzz.mutations import CORPUS, mutated_bytes

_INPUT_MAX = 1 << 17
_PACKAGES = ["ternmq_rpc.grpc_stream", "ternmq_rpc.grpc_http2"]


def run_guided(seed: int, inputs: int, folder: str | None) -> None:
    """Does not return: libFuzzer ends the process, with a status other than 0 if something broke."""
    with atheris.instrument_imports(include=_PACKAGES):
        from tests.fuzz.subject import Subject
    subject = contextlib.ExitStack().enter_context(contextlib.closing(Subject()))

    def take(data: bytes) -> None:
        subject.take(data, zlib.crc32(data))

    def mutate(data: bytes, size_max: int, number: int) -> bytes:
        return mutated_bytes(data, number)[:size_max]

    options = [f"-runs={inputs}", f"-seed={seed % (1 << 31)}", f"-max_len={_INPUT_MAX}", "-timeout=30"]
    folders = []
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        folders.append(folder)
    atheris.Setup([sys.argv[0], *options, *folders, str(CORPUS)], take, custom_mutator=mutate)
    atheris.Fuzz()
