"""Compiles the modules of the hot path by mypyc where a wheel is built and TERNMQ_COMPILE is 1; hatchling calls it.

That takes minutes, of which pip says nothing, and nobody needs it to try a client or a test: so it is asked for. What
can't be compiled ends the build then. Otherwise, and with TERNMQ_COMPILE=0, the wheel is plain Python for any platform.
An editable install is plain Python always: what is compiled would hide what is edited.

TERNMQ_COMPILE_FOR names the machine that it is compiled for, as `aarch64`, where $CC and $LDSHARED are a cross
compiler: for Linux, and the version of Python that builds. `tools/wheels` does that.
"""

import os
import shutil
import subprocess
import sys
import tempfile
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
                return [made for (made,) in pool.map(lambda source: one_after_the_other([source], **options), sources)]

        self.compiler.compile = together
        super().build_extensions()


setup(
    name="ternmq",
    packages=[],
    py_modules=[],
    ext_modules=mypycify(sys.argv[1:], opt_level="3", debug_level="0", multi_file=True),
    cmdclass={"build_ext": BuildInParallel},
    script_args=["build_ext", "--build-lib", "compiled", "--build-temp", "objects"],
)
"""
_PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
_MYPY_OPTIONS = ("--ignore-missing-imports", "--follow-imports=silent")


class CompiledModules(BuildHookInterface[BuilderConfig]):
    """`modules` in its table of pyproject.toml are patterns of the sources to compile, as they are installed;
    `compiler` is what compiling needs beside what building needs."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return list(self.config["compiler"]) if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not _is_wanted():
            return
        folder = self._folder = Path(tempfile.mkdtemp(prefix="ternmq-compiled-"))
        try:
            self._compile(folder)
        except subprocess.CalledProcessError as error:
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

    def _compile(self, folder: Path) -> None:
        """Compile a copy, laid out as it is installed: neither mypy's settings nor ours are in its way."""
        for package in map(Path, self.build_config.target_config["packages"]):
            if Path(self.root, package).is_dir():  # an image needs less than all of them
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
