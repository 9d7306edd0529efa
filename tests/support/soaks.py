"""What the programs of `./run soak` have in common: how long they run, from which seed, and lines that come at once."""

import argparse
import random


def create_parser(description: str, *, minutes: float) -> argparse.ArgumentParser:
    """A parser of `--minutes` and `--seed`, with the first line of the program's docstring."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    return parser


def print_line(text: str) -> None:
    print(text, flush=True)
