"""Which new fields and wider types the tables of a lake take, and what is said of those that they can't."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pyspark_ternmq.pipelines.lake.commits import BatchManifest
from pyspark_ternmq.pipelines.lake.tables.delta import DeltaTables
from pyspark_ternmq.pipelines.lake.tables.evolution import (
    DELTA,
    ICEBERG,
    EvolutionRules,
    SchemaEvolution,
    make_nullable,
    plan_evolution,
)
from pyspark_ternmq.pipelines.lake.tables.iceberg import IcebergTables, opened_catalog
from tests.unit.spark.test_lake_tables import PARTED

ITEM, LONGER_ITEM = pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.string())])
FIRST = pa.struct([("id", pa.int32()), ("in", ITEM), ("list", pa.list_(ITEM))])
ADDED = pa.struct([("id", pa.int32()), ("in", LONGER_ITEM), ("list", pa.list_(LONGER_ITEM)), ("new", pa.float64())])
OLD_ROW = {"id": 1, "in": {"x": 1}, "list": [{"x": 1}]}
NEW_ROW = {"id": 2, "in": {"x": 2, "y": "y"}, "list": [{"x": 2, "y": "y"}], "new": 0.5}
OLD_ROW_NOW = {"id": 1, "in": {"x": 1, "y": None}, "list": [{"x": 1, "y": None}], "new": None}


def table(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("offset", pa.int64()), ("json", kind), *PARTED])


def batch(root: Path, number: int, kind: pa.DataType, row: dict[str, Any], *, has_parted: bool) -> BatchManifest:
    """A batch of one row whose file is at its place, but in no table."""
    name = f"data/topic=orders/date=2026-08-01/hour=07/query-{number}-00001.zstd.parquet"
    rows: dict[str, list[Any]] = {"offset": [number], "json": [row]}
    fields = list(table(kind))[:2]
    if has_parted:
        rows |= {"topic": ["orders"], "date": [date(2026, 8, 1)], "hour": [7]}
        fields = list(table(kind))
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows, pa.schema(fields)), root / name)
    return BatchManifest(query="query", batch=number, staging="s", moves=[(f"_staging/{name}", name)], rows={"data": 1})


def test_fields_that_are_new_come_into_a_delta_table_which_can_still_be_merged(tmp_path: Path) -> None:
    DeltaTables(str(tmp_path), table(FIRST), {}).register_batch(batch(tmp_path, 0, FIRST, OLD_ROW, has_parted=False))
    tables = DeltaTables(str(tmp_path), table(ADDED), {})
    [said] = tables.evolve_tables()
    assert said.endswith("/data: new json.in.y, json.list.element.y, json.new")
    assert tables.evolve_tables() == []
    tables.register_batch(batch(tmp_path, 1, ADDED, NEW_ROW, has_parted=False))
    DeltaTable(tmp_path / "data").optimize.compact()
    rows = pa.table(DeltaTable(tmp_path / "data").scan(columns=["offset", "json"])).to_pylist()
    assert {row["offset"]: row["json"] for row in rows} == {0: OLD_ROW_NOW, 1: NEW_ROW}
    # A run whose rows lack a field leaves it to others.
    DeltaTables(str(tmp_path), table(FIRST), {}).register_batch(batch(tmp_path, 2, FIRST, OLD_ROW, has_parted=False))
    assert DeltaTable(tmp_path / "data").to_pyarrow_table().num_rows == 3


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}


def iceberg(root: Path, catalog: dict[str, str], kind: pa.DataType) -> IcebergTables:
    return IcebergTables(root.as_uri(), table(kind), catalog="tests", options=catalog, namespace="lake")


def test_fields_that_are_new_and_types_that_are_wider_come_into_an_iceberg_table(
    tmp_path: Path, catalog: dict[str, str]
) -> None:
    first = pa.struct([*FIRST, ("map", pa.map_(pa.string(), ITEM)), ("amount", pa.decimal128(10, 2))])
    wider = pa.struct(
        [
            ("id", pa.int64()),
            *list(ADDED)[1:],
            ("map", pa.map_(pa.string(), LONGER_ITEM)),
            ("amount", pa.decimal128(12, 2)),
        ]
    )
    iceberg(tmp_path, catalog, first).register_batch(
        batch(tmp_path, 0, first, {**OLD_ROW, "map": [("k", {"x": 1})], "amount": None}, has_parted=True)
    )
    [said] = iceberg(tmp_path, catalog, wider).evolve_tables()
    assert said == (
        "table lake.data: new json.in.y, json.list.element.y, json.new, json.map.value.y; wider json.id, json.amount"
    )
    assert iceberg(tmp_path, catalog, wider).evolve_tables() == []
    row = {**NEW_ROW, "id": 2**40, "map": [("k", {"x": 2, "y": "y"})], "amount": None}
    iceberg(tmp_path, catalog, wider).register_batch(batch(tmp_path, 1, wider, row, has_parted=True))
    # A narrower type is read as the wider one.
    assert iceberg(tmp_path, catalog, first).evolve_tables() == []
    found = opened_catalog("tests", catalog).load_table("lake.data").scan().to_arrow().to_pylist()
    assert {one["offset"]: one["json"] for one in found} == {
        0: {**OLD_ROW_NOW, "map": [("k", {"x": 1, "y": None})], "amount": None},
        1: row,
    }


def changes(has: pa.DataType, wanted: pa.DataType, rules: EvolutionRules) -> SchemaEvolution:
    return plan_evolution("t", pa.schema([("json", has)]), pa.schema([("json", wanted)]), rules)


@pytest.mark.parametrize(
    ("has", "wanted", "rules", "problem"),
    [
        (pa.int64(), pa.string(), ICEBERG, "field json of table t is bigint, and would be string: Iceberg widens"),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), ICEBERG, r"is decimal\(10,2\), and would be decimal\(12,4\)"),
        (
            pa.struct([("a", ITEM)]),
            pa.struct([("a", pa.string())]),
            ICEBERG,
            "json.a of table t is a struct, and",
        ),
        (pa.list_(pa.int64()), pa.list_(pa.string()), DELTA, "field json.element of table t is bigint"),
        (pa.list_(ITEM), ITEM, DELTA, "is an array, and would be a struct"),
        (pa.map_(pa.int32(), ITEM), pa.map_(pa.int64(), ITEM), ICEBERG, "field json.key of table t is int"),
        (pa.int32(), pa.int64(), DELTA, "is int, and would be bigint: delta-rs can't read older files as that"),
        (pa.int64(), pa.int32(), DELTA, "is bigint, and would be int"),
        (
            pa.map_(pa.string(), ITEM),
            pa.map_(pa.string(), LONGER_ITEM),
            DELTA,
            "json.value.y .* is new in a struct",
        ),
        (ITEM, pa.struct([("X", pa.int32())]), ICEBERG, "field json.X of table t differs from its field x only in"),
    ],
)
def test_what_can_not_be_names_the_field_and_both_types(
    has: pa.DataType, wanted: pa.DataType, rules: EvolutionRules, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        changes(has, wanted, rules)
    assert len(str(refused.value)) < 220


def test_types_that_differ_in_memory_alone_are_the_same() -> None:
    small = pa.struct([("a", pa.string()), ("b", pa.list_(pa.binary()))])
    large = pa.struct([("a", pa.large_string()), ("b", pa.large_list(pa.large_binary()))])
    assert changes(large, small, DELTA).columns() == set()


def test_everything_may_be_null_but_the_keys_of_maps() -> None:
    needed = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    [found] = make_nullable(pa.schema([pa.field("m", pa.map_(pa.string(), needed), nullable=False)]))
    assert found.nullable
    assert found.type.item_type.field("x").nullable
