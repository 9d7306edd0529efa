"""Compiles the modules of the hot path by mypyc where a wheel is built and TERNMQ_COMPILE is 1; hatchling calls it.

That takes minutes, during which pip prints nothing, and trying a client needs no speed: so it is optional. What
can't be compiled ends the build then. Otherwise, and with TERNMQ_COMPILE=0, the wheel is plain Python for any platform.
An editable install is plain Python always: what is compiled would hide what is edited.

TERNMQ_COMPILED is a folder that keeps what was compiled, a file for each content of what it was compiled of: it is
compiled once for the same sources, Python and C library, by whichever build comes first. `python hatch_build.py` prints
the name of the file that is right for these sources here.

TERNMQ_COMPILE_FOR names the machine that it is compiled for, as `aarch64`, where $CC and $LDSHARED are a cross
compiler: for Linux, and the version of Python that builds. `tools/wheels` does that.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# A C file for each module, and as many of them at a time as there are cores: a third of the time of one large file.
# Each takes some 100 MB to compile, hence the bound.
_SETUP = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext


class BuildInParallel(build_ext):
    def build_extensions(self):
        one_after_the_other = self.compiler.compile

        def together(sources, **options):
            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
                return [one for (one,) in pool.map(lambda source: one_after_the_other([source], **options), sources)]

        self.compiler.compile = together
        super().build_extensions()


extensions = mypycify(sys.argv[1:], opt_level="3", debug_level="0", multi_file=True)
if sys.platform != "win32":
    # Functions of other files can be called directly, and those of the same file be inlined: up to a tenth of the CPU.
    for extension in extensions:
        extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]  # they share one list

setup(
    name="ternmq",
    packages=[],
    py_modules=[],
    ext_modules=extensions,
    cmdclass={"build_ext": BuildInParallel},
    script_args=["build_ext", "--build-lib", "compiled", "--build-temp", "objects"],
)
"""
_PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
_MYPY_OPTIONS = ("--ignore-missing-imports", "--follow-imports=silent")
# By which setuptools compiles otherwise than the Python that runs it was compiled.
_VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED")
_KEPT = 4


class CompiledModules(BuildHookInterface[BuilderConfig]):
    """`modules` in its table of pyproject.toml are patterns of the sources to compile, as they are installed;
    `compiler` is what compiling needs beside what building needs, `unread` are packages that none of them
    imports."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        if not _is_wanted() or ((kept := self._kept_file()) is not None and kept.is_file()):
            return []
        return list(self.config["compiler"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not _is_wanted():
            return
        folder = self._folder = Path(tempfile.mkdtemp(prefix="ternmq-compiled-"))
        try:
            self._compile_once(folder)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(folder)
            raise RuntimeError(f"the hot path could not be compiled (TERNMQ_COMPILE=1):\n{error.stdout}") from error
        build_data["pure_python"] = False
        if machine := _other_machine():
            build_data["tag"] = f"{_PYTHON}-{_PYTHON}-linux_{machine}"
        else:
            build_data["infer_tag"] = True
        compiled = folder / "compiled"
        extensions = (path for path in compiled.rglob("*") if path.is_file())
        build_data["force_include"].update({str(path): str(path.relative_to(compiled)) for path in extensions})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder)

    def _kept_file(self) -> Path | None:
        """Return the cache of compiled code; none for a cross compiler, whose output depends on more than its
        variables."""
        folder = os.environ.get("TERNMQ_COMPILED", "")
        if not folder or _other_machine():
            return None
        return Path(folder, name_of_kept(Path(self.root), self.build_config.target_config["packages"], self.config))

    def _compile_once(self, folder: Path) -> None:
        """Put the extension modules into `folder`/compiled, from the file that keeps them if it is there."""
        kept = self._kept_file()
        if kept is None:
            self._compile(folder)
            return
        kept.parent.mkdir(parents=True, exist_ok=True)
        with _locked(kept.parent / "lock"):  # a second build of the same sources waits for the first one's file
            if not kept.is_file():
                self._compile(folder)
                _keep(folder / "compiled", kept)
                return
        os.utime(kept)
        with zipfile.ZipFile(kept) as file:
            file.extractall(folder / "compiled")

    def _compile(self, folder: Path) -> None:
        """Compile a copy, laid out as it is installed: neither mypy's settings nor ours are in its way."""
        for package in _read_packages(self.build_config.target_config["packages"], self.config):
            shutil.copytree(Path(self.root, package), folder / package.name)
        modules = [str(path) for pattern in self.config["modules"] for path in sorted(folder.glob(pattern))]
        subprocess.run(
            [sys.executable, "-c", _SETUP, *_MYPY_OPTIONS, *(os.path.relpath(module, folder) for module in modules)],
            cwd=folder,
            env={**os.environ, **_suffix_for(_other_machine())},
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def name_of_kept(root: Path, packages: list[str], config: dict[str, Any]) -> str:
    """The name of the file with what is compiled of these sources by and for this Python."""
    made_of = hashlib.sha256()
    abi = (platform.python_implementation(), sysconfig.get_config_var("SOABI"), platform.machine(), platform.libc_ver())
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    made_of.update(repr((abi, variables, _SETUP, _MYPY_OPTIONS, config["compiler"], config["modules"])).encode())
    for package in _read_packages(packages, config):
        for path in sorted([*Path(root, package).rglob("*.py"), *Path(root, package).rglob("*.pyi")]):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            made_of.update(f"{package.name}/{path.relative_to(Path(root, package))} {content}\n".encode())
    return f"{made_of.hexdigest()[:32]}.zip"


def _read_packages(packages: list[str], config: dict[str, Any]) -> list[Path]:
    """The packages in which modules to compile are searched."""
    return [Path(package) for package in packages if package not in config["unread"]]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # what is compiled is kept on Unix alone

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _keep(compiled: Path, kept: Path) -> None:
    """Write the file, which comes to be in one step; of all files the newest stay."""
    unfinished = kept.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w") as file:
        for path in sorted(compiled.rglob("*")):
            file.write(path, path.relative_to(compiled))
    unfinished.replace(kept)
    for old in sorted(kept.parent.glob("*.zip"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        old.unlink()


def _other_machine() -> str:
    return os.environ.get("TERNMQ_COMPILE_FOR", "")


def _suffix_for(machine: str) -> dict[str, str]:
    """The variable by which setuptools names extension modules for another machine."""
    if not machine:
        return {}
    return {"SETUPTOOLS_EXT_SUFFIX": f".cpython-{_PYTHON.removeprefix('cp')}-{machine}-linux-gnu.so"}


def _is_wanted() -> bool:
    setting = os.environ.get("TERNMQ_COMPILE", "")
    if setting not in ("", "0", "1"):
        raise ValueError(f"TERNMQ_COMPILE is {setting!r}; it may be 0 or 1")
    return setting == "1"


if __name__ == "__main__":
    with Path(__file__).with_name("pyproject.toml").open("rb") as settings:
        _wheel = tomllib.load(settings)["tool"]["hatch"]["build"]["targets"]["wheel"]
    sys.stdout.write(name_of_kept(Path(__file__).parent, _wheel["packages"], _wheel["hooks"]["custom"]) + "\n")
