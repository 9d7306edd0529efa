"""Parses the file of `ternmq apply`, which is YAML, TOML or JSON, into plain values; errors are WrongUsage, in one
line.

Limits      `FILE_BYTES_MAX` for the file, and `VALUES_MAX` for its values: a YAML alias stands for everything below its
            anchor, so a few lines can mean more values than fit into memory. Python limits the nesting: beyond that its
            parsers raise RecursionError.
Keys        each at most once in its table: of two equal keys, the parsers of YAML and JSON would drop the first.
Numbers     in YAML as its version 1.2 writes them. PyYAML reads those of 1.1, where `010` is 8 and `1:30` is 90.
"""

import json
import re
import tomllib
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

FILE_BYTES_MAX = 16 * 1024 * 1024
VALUES_MAX = 1_000_000
NESTING_MAX = 100
_NUMBER = re.compile(
    r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


def parse_file(file: "Path") -> object:
    """Parse the file; raises WrongUsage, and RecursionError if it is nested too deeply."""
    text = _read_text(file)
    try:
        if file.suffix == ".toml":
            return tomllib.loads(text)
        if file.suffix == ".json":
            return json.loads(text, object_pairs_hook=_build_table)
        return _parse_yaml(text)
    except ValueError as error:
        raise WrongUsage(f"{file}: {error}") from None


def _read_text(file: "Path") -> str:
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


def _build_table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a table of a JSON object; raises ValueError if it has a key twice."""
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"an object has the key {cut_text(key)!r} twice")
        table[key] = value
    return table


def _parse_yaml(text: str) -> object:
    """Parse YAML; raises ValueError for text that is no YAML or has too many values."""
    import yaml

    try:
        # Nodes first: there, an alias is the node of its anchor, and nothing is copied yet.
        root = yaml.compose(text, yaml.SafeLoader)
        if root is None:
            return None
        if _count_values(root, {}) > VALUES_MAX:
            raise ValueError(f"its aliases expand to more than {VALUES_MAX} values")
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _count_values(node: "yaml.Node", known: "dict[yaml.Node, int]", depth: int = 0) -> int:
    """Return the number of values in `node`, with aliases expanded.

    Raises ValueError if an alias contains itself, RecursionError if the nesting exceeds NESTING_MAX.
    """
    import yaml

    if depth > NESTING_MAX:
        raise RecursionError
    if isinstance(node, yaml.ScalarNode):
        _check_number(node)
        return 1
    if node in known:
        if not known[node]:
            raise ValueError("an alias contains itself")
        return known[node]
    known[node] = 0
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
    parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
    known[node] = 1 + sum(_count_values(part, known, depth + 1) for part in parts)
    return known[node]


def _check_number(node: "yaml.ScalarNode") -> None:
    """Raise ValueError for a number of YAML 1.1 that is another number or a text in YAML 1.2."""
    is_number = node.style is None and node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    if is_number and not _NUMBER.fullmatch(node.value):
        raise ValueError(
            f"{_node_position(node)}: {cut_text(node.value)} is not the same number in all versions of YAML; write a "
            "plain decimal "
            "number, or quote a text"
        )


def _check_keys(node: "yaml.MappingNode") -> None:
    """Raise ValueError if a YAML table has a key twice."""
    import yaml

    seen: dict[tuple[str, str], yaml.Node] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            first = seen.setdefault((key.tag, key.value), key)
            if first is not key:
                raise ValueError(
                    f"{_node_position(key)}: this table already has the key {cut_text(key.value)!r}, at "
                    f"{_node_position(first)}"
                )


def _node_position(node: "yaml.Node") -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"
