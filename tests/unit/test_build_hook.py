"""What of the project a wheel has compiled, and where: `hatch_build.py`. That it works is the tier `compiled`."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+|\(_?[A-Z][A-Z0-9_]+, .*\)")


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


def test_compiling_is_asked_for(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """However well a machine could: it takes minutes, of which pip says nothing."""
    monkeypatch.delenv("TERNMQ_COMPILE", raising=False)
    assert not hook._is_wanted()
    for setting, wanted in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("TERNMQ_COMPILE", setting)
        assert hook._is_wanted() is wanted
    monkeypatch.setenv("TERNMQ_COMPILE", "yes")
    with pytest.raises(ValueError, match="0 or 1"):
        hook._is_wanted()


def test_what_can_not_be_compiled_ends_the_build_that_asks_for_it(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERNMQ_COMPILE", "1")
    built = hook.CompiledModules.__new__(hook.CompiledModules)
    folders: list[Path] = []

    def fails(folder: Path) -> None:
        folders.append(folder)
        raise subprocess.CalledProcessError(1, "mypyc", output="no compiler")

    monkeypatch.delenv("TERNMQ_COMPILED", raising=False)
    monkeypatch.setattr(built, "_compile", fails)
    with pytest.raises(RuntimeError, match="no compiler"):
        built.initialize("standard", {})
    assert [folder.exists() for folder in folders] == [False]


def test_a_wheel_for_another_machine_is_named_after_it_and_so_is_what_is_in_it(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    monkeypatch.setenv("TERNMQ_COMPILE", "1")
    monkeypatch.delenv("TERNMQ_COMPILED", raising=False)
    for machine, tag in (("", None), ("aarch64", f"{python}-{python}-linux_aarch64")):
        monkeypatch.setenv("TERNMQ_COMPILE_FOR", machine)
        built = hook.CompiledModules.__new__(hook.CompiledModules)
        monkeypatch.setattr(built, "_compile", lambda _: None)
        data: dict[str, Any] = {"force_include": {}}
        built.initialize("standard", data)
        built.finalize("standard", data, "")
        assert (data.get("tag"), data.get("infer_tag", False)) == (tag, tag is None)
    suffix = f".cpython-{python.removeprefix('cp')}-aarch64-linux-gnu.so"
    assert hook._suffix_for("aarch64") == {"SETUPTOOLS_EXT_SUFFIX": suffix}
    assert hook._suffix_for("") == {}


class Project:
    """A project of two packages, of which one is compiled, and how often it was."""

    def __init__(self, root: Path, hook: ModuleType) -> None:
        self.root, self.compilations = root, 0
        self.sources = root / "read/ternmq_read"
        self.unread = root / "unread/ternmq_unread"
        for package in (self.sources, self.unread):
            package.mkdir(parents=True)
            (package / "module.py").write_text("one = 1")
        self.config = {"compiler": ["mypy"], "modules": ["ternmq_read/*.py"], "unread": ["unread/ternmq_unread"]}
        self._hook = hook

    def built(self) -> dict[str, str]:
        """What the wheel has: names of extension modules and their content."""
        built = self._hook.CompiledModules.__new__(self._hook.CompiledModules)
        built._compile = self._compile
        packages = [str(package.relative_to(self.root)) for package in (self.sources, self.unread)]
        kept = Path(os.environ["TERNMQ_COMPILED"], self._hook.name_of_kept(self.root, packages, self.config))
        built._kept_file = lambda: kept
        data: dict[str, Any] = {"force_include": {}}
        built.initialize("standard", data)
        extensions = {name: Path(path).read_text() for path, name in data["force_include"].items()}
        built.finalize("standard", data, "")
        return extensions

    def _compile(self, folder: Path) -> None:
        self.compilations += 1
        extension = folder / "compiled/ternmq_read/module.so"
        extension.parent.mkdir(parents=True)
        extension.write_text((self.sources / "module.py").read_text())


def test_the_same_sources_are_compiled_once(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERNMQ_COMPILE", "1")
    monkeypatch.delenv("TERNMQ_COMPILE_FOR", raising=False)
    monkeypatch.setenv("TERNMQ_COMPILED", str(tmp_path / "kept"))
    first, second = Project(tmp_path / "first", hook), Project(tmp_path / "second", hook)
    assert first.built() == second.built() == {"ternmq_read/module.so": "one = 1"}
    assert (first.compilations, second.compilations) == (1, 0)
    (second.unread / "module.py").write_text("two = 2")
    assert second.built() == {"ternmq_read/module.so": "one = 1"}
    assert second.compilations == 0
    (second.sources / "module.py").write_text("two = 2")
    assert second.built() == {"ternmq_read/module.so": "two = 2"}
    assert second.compilations == 1
    monkeypatch.setenv("CFLAGS", "-O0")
    second.built()
    assert second.compilations == 2
    for number in range(10):
        (second.sources / "module.py").write_text(f"number = {number}")
        second.built()
    assert len([*(tmp_path / "kept").glob("*.zip")]) == hook._KEPT


def test_what_a_cross_compiler_makes_is_not_kept(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERNMQ_COMPILED", "/kept")
    monkeypatch.setenv("TERNMQ_COMPILE_FOR", "aarch64")
    assert hook.CompiledModules.__new__(hook.CompiledModules)._kept_file() is None


def test_no_package_that_is_compiled_imports_one_that_is_not_read(wheel: dict[str, Any]) -> None:
    """Else a change in that would not be compiled. The test kit starts the command; no compiled module imports it."""
    unread = wheel["hooks"]["custom"]["unread"]
    names = "|".join(Path(package).name for package in unread)
    imports = re.compile(rf"^\s*(from|import) ({names})\b", re.MULTILINE)
    read = [ROOT / package for package in wheel["packages"] if package not in unread]
    found = [path for package in read for path in package.rglob("*.py") if imports.search(path.read_text())]
    assert [path for path in found if not path.is_relative_to(ROOT / "clients/python/ternmq/testing")] == []


def test_what_is_named_is_there(wheel: dict[str, Any]) -> None:
    folders = [(ROOT / package).parent for package in wheel["packages"]]
    for pattern in wheel["hooks"]["custom"]["modules"]:
        assert any(path.suffix == ".py" for folder in folders for path in folder.glob(pattern)), pattern


def test_errors_of_different_classes_have_different_names_within_a_function(wheel: dict[str, Any]) -> None:
    """Else mypyc takes the second one for one of the first class, and raises TypeError where that is a compiled one."""
    for path, module in _compiled_modules(wheel):
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                classes: dict[str, str] = {}
                for handler in _handlers(function):
                    kind = ast.unparse(handler.type) if handler.type else ""
                    if handler.name is not None:
                        assert classes.setdefault(handler.name, kind) == kind, (
                            f"{path}: {function.name}: {handler.name}"
                        )


def test_constants_are_final(wheel: dict[str, Any]) -> None:
    """Else mypyc looks them up by name at each use."""
    for path, module in _compiled_modules(wheel):
        for statement in module.body:
            names = [ast.unparse(each) for each in getattr(statement, "targets", ())]
            if isinstance(statement, ast.AnnAssign) and not ast.unparse(statement.annotation).startswith("Final"):
                names = [ast.unparse(statement.target)]
            is_type = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
            is_type = is_type and ast.unparse(statement.value.func) in ("TypeVar", "ParamSpec")  # type: ignore[attr-defined]
            assert is_type or not [name for name in names if CONSTANT.fullmatch(name)], f"{path}: {names}"


def test_context_managers_that_wait_are_those_of_time_limits(wheel: dict[str, Any]) -> None:
    """An error that left the block of another one was lost where it was compiled, and replicas did not come back."""
    for path, module in _compiled_modules(wheel):
        for node in ast.walk(module):
            if isinstance(node, ast.AsyncWith):
                used = [ast.unparse(item.context_expr).partition("(")[0] for item in node.items]
                assert used == ["asyncio.timeout"], f"{path}: {used}"


def _compiled_modules(wheel: dict[str, Any]) -> "Iterator[tuple[Path, ast.Module]]":
    folders = [(ROOT / package).parent for package in wheel["packages"]]
    for pattern in wheel["hooks"]["custom"]["modules"]:
        for path in (path for each in folders for path in each.glob(pattern)):
            yield path, ast.parse(path.read_text())


def _handlers(within: ast.AST) -> "Iterator[ast.ExceptHandler]":
    """Those of a function, without the functions in it."""
    for node in ast.iter_child_nodes(within):
        if isinstance(node, ast.ExceptHandler):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _handlers(node)
