"""The source is in folders that a reader can take in, and neither modules nor folders import each other in circles.

Imports   those in functions count; those for type checkers only do not
Folders   what a package has side by side, each with all that is in it: an import counts between the two that differ
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED_ALIKE = ("protos", "common", "rpc", "runtime", "registry", "console", "broker", "proxy", "command")
SOURCES = {f"ternmq_{name}": name for name in NAMED_ALIKE} | {"ternmq": "clients/python", "pyspark_ternmq": "spark"}
MODULES_MAX = 15
# Folders with more modules than that; a number is the most that it may have.
LARGER = {
    "ternmq_command.terminal": 16,
    "ternmq_common": 16,
    "ternmq_proxy.fronts.grpc.activities": 23,
    "ternmq_proxy.fronts.grpc.activities.admin": 20,
    "ternmq_proxy.message_service.cluster": 18,
    "ternmq_proxy.operations": 23,
}
# Not imported by name: one for each version of the schema.
MIGRATIONS = "ternmq_registry.migrations.versions"
# Imports between neighbours without which there is no circle: the first folder imports the second.
BACKWARD = {
    ("pyspark_ternmq.refusals", "pyspark_ternmq.sink"),
    ("pyspark_ternmq.refusals", "pyspark_ternmq.source"),
    ("ternmq_broker.store_tools.store_view", "ternmq_broker.store_tools.checking"),
    ("ternmq_command.group", "ternmq_command.apply"),
    ("ternmq_command.topic", "ternmq_command.apply"),
    ("ternmq_common.resources", "ternmq_common.catalog"),
    ("ternmq_console.pages.messages", "ternmq_console.pages.waiting"),
    ("ternmq_proxy.fronts.grpc", "ternmq_proxy.fronts.operator_calls"),
}

Graph = dict[str, set[str]]


def source_files() -> dict[str, Path]:
    """Return the modules of the source by their dotted names; a package's name is that of its `__init__`."""
    found = {}
    for package, folder in SOURCES.items():
        for path in (ROOT / folder / package).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield what is imported, as `package.name`: the name may be a module of the package or a part of a module."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            for block in ("body", "handlers", "orelse", "finalbody", "cases"):
                inner = getattr(node, block, ())
                waiting += inner if isinstance(inner, list) else ()


@pytest.fixture(scope="module")
def imports() -> Graph:
    """What each module of the source imports of it."""
    files = source_files()
    graph: Graph = {}
    for name, path in files.items():
        imported = set(imported_names(ast.parse(path.read_text())))
        modules = {each if each in files else each.rpartition(".")[0] for each in imported}
        graph[name] = {each for each in modules if each in files and each != name}
    return graph


def circle_of(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one circle, in the order of its imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def between_neighbours(imports: Graph) -> dict[str, Graph]:
    """Return, by package, what each of the folders and modules in it imports of the others."""
    found: dict[str, Graph] = {}
    for importer, imported in ((name, each) for name, names in imports.items() for each in names):
        one, other = importer.split("."), imported.split(".")
        same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        if same is not None:  # else one is the package that the other is in
            package, first, second = (".".join(parts) for parts in (one[:same], one[: same + 1], other[: same + 1]))
            found.setdefault(package, {}).setdefault(first, set()).add(second)
    return found


def test_modules_do_not_import_each_other_in_a_circle(imports: Graph) -> None:
    assert len(imports) > 1_000
    assert circle_of(imports) == []


def test_folders_do_not_import_each_other_in_a_circle(imports: Graph) -> None:
    neighbours = between_neighbours(imports)
    kept = {
        package: {one: {each for each in others if (one, each) not in BACKWARD} for one, others in graph.items()}
        for package, graph in neighbours.items()
    }
    assert {package: circle for package, graph in kept.items() if (circle := circle_of(graph))} == {}
    there = {(one, each) for graph in neighbours.values() for one, others in graph.items() for each in others}
    assert there >= BACKWARD, "these are gone; take them off the list"


def test_no_folder_has_more_modules_than_a_reader_can_take_in() -> None:
    sizes: dict[str, int] = {}
    for name, path in source_files().items():
        folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
        sizes[folder] = sizes.get(folder, 0) + 1
    del sizes[MIGRATIONS]
    too_large = {name: size for name, size in sizes.items() if size > LARGER.get(name, MODULES_MAX)}
    assert too_large == {}
    assert [name for name in LARGER if sizes.get(name, 0) <= MODULES_MAX] == [], "take them off the list"


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, ["a", "b", "c", "a"]),
    ],
)
def test_a_circle_is_found(graph: Graph, circle: list[str]) -> None:
    found = circle_of(graph)
    assert len(found) == len(circle)
    assert all(second in graph[first] for first, second in pairwise(found))


def test_what_only_type_checkers_import_makes_no_circle() -> None:
    text = "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\ndef f():\n    from d import e\n"
    assert sorted(imported_names(ast.parse(text))) == ["a", "c", "d.e"]
