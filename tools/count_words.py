"""Counts the words in names of functions, classes and identifiers, by package.

    python -m tools.count_words [--list] [FOLDER...]

Prints for each package: the number of functions and classes, the share of their names that are one word, and the mean number of
words of all names that the package defines (functions, classes, parameters, attributes, variables). `--list` prints the names
of one word too, with file and line. Generated code and tests are left out; so are dunder methods, and methods whose name a
library or a protocol sets, since nobody here chose them (`FOREIGN`).
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("broker", "clients/python", "command", "common", "console", "proxy", "registry", "rpc", "runtime", "spark")
GENERATED = re.compile(r"_pb2|_grpc\.py|/blocking/|/build/|/\.venv")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
FOREIGN = frozenset(
    "close read write commit rollback run start stop get put pop append extend update items keys values clear copy flush seek tell"
    " send throw fileno emit format filter get acquire release locked wait set cancel done result exception partitions schema name"
    " reader writer reportLatestOffset abort".split()
)


def words_of(name: str) -> int:
    """Return how many words a name has: `_add_claim` and `AddClaim` have two."""
    return max(1, len(WORD.findall(name.strip("_"))))


def sources(package: str) -> Iterator[Path]:
    """Yield the hand-written source files of a package."""
    for path in sorted(Path(package).rglob("*.py")):
        if not GENERATED.search(path.as_posix()):
            yield path


def definitions(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield each name that a module defines, its line, and whether it is a function or a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno, True
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno, False


def is_counted(name: str) -> bool:
    """Tell whether a name counts: dunders, `self`, `cls` and `_` do not."""
    return not (name.startswith("__") and name.endswith("__")) and name not in {"self", "cls", "_"}


def main() -> None:
    """Print the counts of the packages, or of the folders that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=PACKAGES)
    parser.add_argument("--list", action="store_true", help="print each function and class whose name is one word")
    options = parser.parse_args()
    names = one_word = counted = words = 0
    for folder in options.folders:
        before = names, one_word, counted, words
        for path in sources(folder):
            for name, line, is_callable in definitions(ast.parse(path.read_bytes())):
                if not is_counted(name):
                    continue
                counted, words = counted + 1, words + words_of(name)
                if is_callable and name not in FOREIGN:
                    names += 1
                    if words_of(name) == 1:
                        one_word += 1
                        if options.list:
                            print(f"{path}:{line}: {name}")
        own = names - before[0], one_word - before[1], counted - before[2], words - before[3]
        print(
            f"{folder:15} {own[0]:6} functions and classes, {own[1] / max(1, own[0]):4.0%} one word; {own[3] / max(1, own[2]):.2f} words"
        )
    print(
        f"{'all':15} {names:6} functions and classes, {one_word / names:4.0%} one word; {words / counted:.2f} words",
        file=sys.stdout,
    )


if __name__ == "__main__":
    main()
