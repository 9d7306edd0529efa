"""The repo's programs in Go, of which no tier builds those of the benchmarks, are whole and in Go's own form."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks/loader", "clients/examples", "tests")


def test_all_sources_in_go_are_formatted() -> None:
    sources = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.go"))
    assert ROOT / "benchmarks/loader/main.go" in sources
    checked = subprocess.run(
        ["gofmt", "-l", *sources], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
