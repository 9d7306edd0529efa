"""The file of `ternmq apply` as plain values, however it is written; WrongUsage says in one line why that can't be.

Limits      `FILE_BYTES_MAX` for the file, and `VALUES_MAX` for what it stands for: an alias of YAML stands for all that
            is below its anchor, so a few lines can stand for more values than fit into any memory. How deeply it may be
            nested is left to Python: beyond that its parsers raise RecursionError.
"""

import json
import tomllib
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

FILE_BYTES_MAX = 16 * 1024 * 1024
VALUES_MAX = 1_000_000
NESTING_MAX = 100


def parsed(file: "Path") -> object:
    """The content of `file`; RecursionError if it is nested too deeply."""
    text = _text_of(file)
    try:
        if file.suffix == ".toml":
            return tomllib.loads(text)
        if file.suffix == ".json":
            return json.loads(text)
        return _parsed_yaml(text)
    except ValueError as error:
        raise WrongUsage(f"{file}: {error}") from None


def _text_of(file: "Path") -> str:
    try:
        with click.open_file(str(file), "rb") as opened:
            data: bytes = opened.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise WrongUsage(f"can't read {file}: {reason}") from None
    if len(data) > FILE_BYTES_MAX:
        raise WrongUsage(f"{file} is longer than {FILE_BYTES_MAX} bytes")
    return text


def _parsed_yaml(text: str) -> object:
    """ValueError for text that is no YAML, or stands for too much."""
    import yaml

    try:
        # Nodes first: an alias is the node of its anchor there, and nothing is copied yet.
        root = yaml.compose(text, yaml.SafeLoader)
        if root is None:
            return None
        if _values(root, {}) > VALUES_MAX:
            raise ValueError(f"its aliases stand for more than {VALUES_MAX} values")
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _values(node: "yaml.Node", known: "dict[yaml.Node, int]", depth: int = 0) -> int:
    """How many values `node` stands for, aliases written out; ValueError if it is within itself, RecursionError if it
    is nested more than NESTING_MAX deep, whatever Python allows."""
    import yaml

    if depth > NESTING_MAX:
        raise RecursionError
    if isinstance(node, yaml.ScalarNode):
        return 1
    if node in known:
        if not known[node]:
            raise ValueError("an alias stands for what it is in")
        return known[node]
    known[node] = 0
    parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
    known[node] = 1 + sum(_values(part, known, depth + 1) for part in parts)
    return known[node]
