"""Many inputs one after the other, each made from a seed and its number, so that a failure can be had again."""

import contextlib
import random
import resource
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from tests.fuzz.mutations import corpus, mutated
from tests.fuzz.subject import Subject

# What a run may leave behind, after its first inputs have filled the caches; and what one input may take meanwhile.
GROWTH_MAX_BYTES = 64 << 20
PEAK_MAX_BYTES = 128 << 20
_WARM_UP_INPUTS = 1000


class Grown(AssertionError):
    """The memory grows with the inputs."""


@dataclass(slots=True)
class Totals:
    """What a run has seen: without answers it would have tested little."""

    inputs: int = 0
    answered: int = 0
    ended: int = 0
    closed: int = 0
    """Connections that the server has closed for what came."""


def input_of(seed: int, number: int, known: list[bytes]) -> bytes:
    return mutated(random.Random(f"{seed}/{number}"), known)


def run(seed: int, inputs: int, totals: Totals) -> Iterator[int]:
    """The number of each input that was taken; what goes wrong is raised with a note of how to have it again."""
    known, process = corpus(), psutil.Process()
    before = peak_before = 0
    with contextlib.closing(Subject()) as subject:
        for number in range(inputs):
            data = input_of(seed, number, known)
            try:
                rules = subject.take(data, number)
            except Exception as error:
                error.add_note(f"input {number} of seed {seed}: {data[:400].hex()}{'...' if len(data) > 400 else ''}")
                raise
            totals.inputs += 1
            totals.answered += len(rules.begun)
            totals.ended += len(rules.ended)
            totals.closed += rules.last_words
            if number == _WARM_UP_INPUTS:
                before, peak_before = process.memory_info().rss, _peak_bytes()
            yield number
        if before and (grown := process.memory_info().rss - before) > GROWTH_MAX_BYTES:
            raise Grown(f"{inputs} inputs have left {grown >> 20} MiB")
        if before and (grown := _peak_bytes() - peak_before) > PEAK_MAX_BYTES:
            raise Grown(f"one of {inputs} inputs has taken {grown >> 20} MiB for a while")


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
