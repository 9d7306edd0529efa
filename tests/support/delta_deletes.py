"""Deletion vectors for a Delta table, as Spark writes them: delta-rs reads them and writes none."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, TableFeatures
from pyroaring import BitMap

_MAGIC = 1681511377
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_rows(table: Path, rows: Mapping[int, Sequence[int]]) -> None:
    """Delete rows by their numbers in live files, which are numbered by their paths."""
    opened = DeltaTable(table)
    if "deletionVectors" not in (opened.protocol().reader_features or ()):
        opened.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    added = _added(table)
    names = sorted(DeltaTable(table).get_add_actions().column("path").to_pylist())
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}}]
    for number, positions in rows.items():
        add = added[names[number]]
        actions.append({"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}})
        actions.append({"add": {**add, "dataChange": True, "deletionVector": _vector(positions)}})
    version = DeltaTable(table).version() + 1
    lines = "".join(f"{json.dumps(action)}\n" for action in actions)
    (table / "_delta_log" / f"{version:020}.json").write_text(lines)


def _added(table: Path) -> dict[str, dict[str, Any]]:
    """What the log has of each file that it ever had."""
    actions = (
        json.loads(line)
        for file in sorted((table / "_delta_log").glob("*.json"))
        for line in file.read_text().splitlines()
    )
    return {action["add"]["path"]: action["add"] for action in actions if "add" in action}


def _vector(positions: Sequence[int]) -> dict[str, object]:
    content = struct.pack("<IQI", _MAGIC, 1, 0) + BitMap(positions).serialize()
    padded = content + bytes(-len(content) % 4)
    words = (int.from_bytes(padded[start : start + 4], "big") for start in range(0, len(padded), 4))
    text = "".join(_DIGITS[word // 85**place % 85] for word in words for place in range(4, -1, -1))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": len(positions)}
