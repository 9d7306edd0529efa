"""Packages of ours that log: all that a wheel has."""

import tomllib
from pathlib import Path

from ternmq_common.process.log_levels import OWN_PACKAGES

ROOT = Path(__file__).parents[3]


def test_every_package_of_the_wheel_is_known_as_ours() -> None:
    """What one that is not logs is shown as that of others: warnings only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {Path(package).name for package in packages} == set(OWN_PACKAGES)
