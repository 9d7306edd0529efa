"""Compiles the modules of the hot path by mypyc where a wheel is built; hatchling calls it.

TERNMQ_COMPILE says whether: 0 never, 1 always (what can't be compiled ends the build), unset: where a C compiler and
Python's headers are there, and plain Python with a warning if it fails nevertheless. An editable install is plain
Python always: what is compiled would hide what is edited.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
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
            if _setting() == "1":
                raise RuntimeError(f"the hot path could not be compiled:\n{error.stdout}") from error
            self.app.display_warning(f"the hot path could not be compiled, and stays plain Python:\n{error.stdout}")
            return
        build_data["pure_python"] = False
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
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def _setting() -> str:
    setting = os.environ.get("TERNMQ_COMPILE", "")
    if setting not in ("", "0", "1"):
        raise ValueError(f"TERNMQ_COMPILE is {setting!r}; it may be 0 or 1")
    return setting


def _is_wanted() -> bool:
    if setting := _setting():
        return setting == "1"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return platform.python_implementation() == "CPython" and bool(shutil.which(compiler)) and headers.is_file()
