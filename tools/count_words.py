"""Counts the words in names of functions, classes and identifiers, by package.

    python -m tools.count_words [--list] [FOLDER...]

Prints for each package how many functions and classes it has, the share of their names that are one word,
the mean number of words of their names, and that of all names that it defines (functions, classes,
parameters, attributes, variables). `--list` also prints the names of one word with file and line. It leaves
out generated code, tests, dunder methods, and the methods whose names Python or a library chose (`FOREIGN`).
"""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("broker", "clients/python", "command", "common", "console", "proxy", "registry", "rpc", "runtime", "spark")
GENERATED = re.compile(r"_pb2|_grpc\.py|/blocking/|/build/|/\.venv")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
FOREIGN = frozenset(
    {"abort", "acquire", "append", "cancel", "clear", "close", "commit", "copy", "done", "emit", "exception", "extend"}
    | {
        "fileno",
        "filter",
        "flush",
        "format",
        "get",
        "items",
        "keys",
        "locked",
        "name",
        "partitions",
        "pop",
        "put",
        "read",
    }
    | {"reader", "release", "reportLatestOffset", "result", "rollback", "run", "schema", "seek", "send", "set", "start"}
    | {"stop", "tell", "throw", "update", "values", "wait", "write", "writer"}
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


@dataclass(frozen=True, slots=True)
class Counts:
    """How many functions and classes there are, those of one word, and their words; all names, and their words."""

    callables: int = 0
    one_word: int = 0
    callable_words: int = 0
    names: int = 0
    words: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.callables + other.callables,
            self.one_word + other.one_word,
            self.callable_words + other.callable_words,
            self.names + other.names,
            self.words + other.words,
        )

    def __str__(self) -> str:
        callables = max(1, self.callables)
        share, own_mean, mean = (
            self.one_word / callables,
            self.callable_words / callables,
            self.words / max(1, self.names),
        )
        return (
            f"{self.callables:6} functions and classes, {share:4.0%} of one word, {own_mean:.2f} words each; "
            f"{mean:.2f} words a name"
        )


def count_names(folder: str, *, shows_names: bool = False) -> Counts:
    """Count the names that the sources of a folder define."""
    counts = Counts()
    for path in sources(folder):
        for name, line, is_callable in definitions(ast.parse(path.read_bytes())):
            if not is_counted(name):
                continue
            is_chosen = is_callable and name not in FOREIGN
            words = words_of(name)
            is_one_word = is_chosen and words == 1
            counts = counts + Counts(is_chosen, is_one_word, words if is_chosen else 0, 1, words)
            if is_one_word and shows_names:
                print(f"{path}:{line}: {name}")
    return counts


def main() -> None:
    """Print the counts of the packages, or of the folders that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=PACKAGES)
    parser.add_argument("--list", action="store_true", help="print each function and class whose name is one word")
    options = parser.parse_args()
    total = Counts()
    for folder in options.folders:
        own = count_names(folder, shows_names=options.list)
        print(f"{folder:15} {own}")
        total = total + own
    print(f"{'all':15} {total}")


if __name__ == "__main__":
    main()
