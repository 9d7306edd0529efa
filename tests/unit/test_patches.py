"""What tests may patch: neither our constants, nor anything of ours by its dotted name.

A test that patches a constant is bound to where it is read, and one that patches by name to what is imported already.
What a test needs short or small is a parameter.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OURS = ("ternmq", "pyspark_ternmq", "tests")
PATCHES = ("setattr", "setitem", "object", "patch")
# Most files need not be parsed.
MAY_PATCH = re.compile(r"setattr|setitem|patch|\.[A-Z_]+ [-+|]?=[^=]")


def modules_of_ours(tree: ast.Module) -> set[str]:
    """The names by which the file knows modules and classes of ours."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {
                (alias.asname or alias.name).partition(".")[0] for alias in node.names if alias.name.startswith(OURS)
            }
    return names


def text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_constant(name: str) -> bool:
    return name.lstrip("_").isupper() and len(name.lstrip("_")) > 1


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def patches_of_ours(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and what is wrong with each patch that is not to be."""
    ours = modules_of_ours(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in PATCHES:
            target, *others = node.args
            name = text_of(others[0]) if others else ""
            if text_of(target).startswith(OURS):
                yield node.lineno, f"{text_of(target)} by its dotted name"
            elif is_constant(name) and root_of(target) in ours:
                yield node.lineno, f"the constant {name}"
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(one, ast.Attribute) and is_constant(one.attr) and root_of(one) in ours:
                        yield node.lineno, f"the constant {one.attr}"


def test_no_test_patches_our_constants_or_ours_by_name() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line} patches {what}"
        for path in sorted(TESTS.rglob("*.py"))
        if MAY_PATCH.search(text := path.read_text())
        for line, what in patches_of_ours(ast.parse(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "patch",
    [
        'monkeypatch.setattr("ternmq_broker.broker.thing", 1)',
        'monkeypatch.setattr(broker, "_THINGS_MAX", 1)',
        'patch.object(broker, "THINGS_MAX", 1)',
        'setattr(broker, "THINGS_MAX", 1)',
        'mock.patch("ternmq_broker.broker.thing")',
        "broker.THINGS_MAX = 1",
        "before, broker.THINGS_MAX = broker.THINGS_MAX, 1",
    ],
)
def test_such_a_patch_is_found(patch: str) -> None:
    assert list(patches_of_ours(ast.parse(f"from ternmq_broker import broker\n{patch}")))


@pytest.mark.parametrize("patch", ['monkeypatch.setattr(os, "EX_OK", 1)', 'monkeypatch.setattr(broker, "thing", 1)'])
def test_other_patches_are_not(patch: str) -> None:
    assert not list(patches_of_ours(ast.parse(f"import os\nfrom ternmq_broker import broker\n{patch}")))
