"""Plants a mistake in a copy of the packages that come first on the path of imports, and runs seeds on it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGES = ("broker", "registry")
SEEDS_MAX = 200
_SEED = re.compile(r"^Seed: (\d+)$", re.MULTILINE)
_FOUND = re.compile(r"^seed (\d+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One patch; `seed` is one that finds it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def what(self) -> str:
        return self.path.read_text().partition("\n")[0]

    @property
    def seed(self) -> int | None:
        found = _SEED.search(self.path.read_text())
        return None if found is None else int(found[1])

    def is_found_by(self, seed: int) -> None:
        """Note that in the patch."""
        text = _SEED.sub("", self.path.read_text())
        first, _, rest = text.partition("\n")
        self.path.write_text(f"{first}\nSeed: {seed}\n\n{rest.lstrip()}")


@dataclass(frozen=True, slots=True)
class Found:
    """Which seed found a mistake, and what it said."""

    seed: int
    why: str


def mistakes() -> list[Mistake]:
    """All, by their names."""
    return [Mistake(path) for path in sorted(HERE.glob("*.patch"))]


def found(mistake: Mistake, first: int, seeds: int) -> Found | None:
    """The first of so many seeds that fails with the mistake; None if all hold. RuntimeError if the patch does not fit,
    or the seeds could not be run."""
    with tempfile.TemporaryDirectory(prefix="ternmq-planted-") as work:
        plant_mistake(mistake, Path(work))
        path = os.pathsep.join(str(Path(work, package)) for package in PACKAGES)
        command = [sys.executable, "-m", "tests.simulation.running", "--until-found"]
        done = subprocess.run(
            [*command, "--from", str(first), "--seeds", str(seeds)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return None
    said = _FOUND.search(done.stdout)
    if said is None:
        raise RuntimeError(f"{mistake.name}: the seeds could not be run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Found(int(said[1]), said[2])


def plant_mistake(mistake: Mistake, work: Path) -> None:
    """Copy the packages below `work`, with the mistake in them. RuntimeError if the patch does not fit."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, Path(work, package), ignore=shutil.ignore_patterns("__pycache__"))
    # A docstring beside the mistake may change; that a seed finds it shows that it is in the right place.
    command = ["git", "apply", "-C1", str(mistake.path)]
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(work.parent)}
    done = subprocess.run(command, cwd=work, env=outside, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{mistake.path.name} does not fit:\n{done.stdout}{done.stderr}")
