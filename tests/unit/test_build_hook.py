"""What of the project a wheel has compiled, and where: `hatch_build.py`. That it works is the tier `compiled`."""

import ast
import importlib.util
import sysconfig
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    target: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return target


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a compiler and with headers."""
    (tmp_path / "Python.h").touch()
    compiler = tmp_path / "cc"
    compiler.touch(mode=0o755)
    monkeypatch.delenv("TERNMQ_COMPILE", raising=False)
    monkeypatch.setenv("CC", f"{compiler} -O2")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    return tmp_path


def test_it_is_compiled_where_a_compiler_and_headers_are(hook: ModuleType, machine: Path) -> None:
    assert hook._is_wanted()
    (machine / "Python.h").unlink()
    assert not hook._is_wanted()
    (machine / "Python.h").touch()
    (machine / "cc").unlink()
    assert not hook._is_wanted()


@pytest.mark.usefixtures("machine")
def test_the_variable_decides_whatever_the_machine_has(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERNMQ_COMPILE", "0")
    assert not hook._is_wanted()
    monkeypatch.setenv("CC", "/nowhere/cc")
    monkeypatch.setenv("TERNMQ_COMPILE", "1")
    assert hook._is_wanted()
    monkeypatch.setenv("TERNMQ_COMPILE", "yes")
    with pytest.raises(ValueError, match="0 or 1"):
        hook._is_wanted()


def test_what_is_named_is_there(wheel: dict[str, Any]) -> None:
    folders = [(ROOT / package).parent for package in wheel["packages"]]
    for pattern in wheel["hooks"]["custom"]["modules"]:
        assert any(path.suffix == ".py" for folder in folders for path in folder.glob(pattern)), pattern


def test_errors_of_different_classes_have_different_names_within_a_function(wheel: dict[str, Any]) -> None:
    """Else mypyc takes the second one for one of the first class, and raises TypeError where that is a compiled one."""
    folders = [(ROOT / package).parent for package in wheel["packages"]]
    for path in (
        path for pattern in wheel["hooks"]["custom"]["modules"] for each in folders for path in each.glob(pattern)
    ):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                classes: dict[str, str] = {}
                for handler in _handlers(function):
                    kind = ast.unparse(handler.type) if handler.type else ""
                    if handler.name is not None:
                        assert classes.setdefault(handler.name, kind) == kind, (
                            f"{path}: {function.name}: {handler.name}"
                        )


def _handlers(within: ast.AST) -> "Iterator[ast.ExceptHandler]":
    """Those of a function, without the functions in it."""
    for node in ast.iter_child_nodes(within):
        if isinstance(node, ast.ExceptHandler):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _handlers(node)
