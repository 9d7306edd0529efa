"""Two servers never have one path, whatever is at it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ternmq_common.errors import StartupError
from ternmq_runtime import path_claim
from ternmq_runtime.path_claim import PathClaim

CLAIMING = """
import sys
from pathlib import Path
from ternmq_runtime.path_claim import PathClaim
claim = PathClaim(Path(sys.argv[1]))
print("has it", flush=True)
sys.stdin.read()
"""


def test_a_path_is_claimed_until_it_is_released(tmp_path: Path) -> None:
    claim = PathClaim(tmp_path)
    with pytest.raises(StartupError, match="in use by another stack"):
        PathClaim(tmp_path)
    other = PathClaim(tmp_path / "other")
    claim.release_path()
    PathClaim(tmp_path).release_path()
    other.release_path()


def test_the_process_that_has_it_is_named_also_where_the_folder_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"has it\n"
        with pytest.raises(StartupError, match=f"gone, and in use by another stack .process {process.pid}.*rescue"):
            PathClaim(path)
        process.communicate()
    PathClaim(path).release_path()  # the kernel dropped it with the process


def test_a_link_and_what_it_leads_to_are_one_path(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    claim = PathClaim(tmp_path / "data")
    for path in (tmp_path / "disk", tmp_path / "data"):
        with pytest.raises(StartupError, match="in use"):
            PathClaim(path)
    claim.release_path()


def test_a_user_who_takes_names_keeps_nobody_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squatter = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (name,) = path_claim._socket_names(tmp_path)
    squatter.bind(name)
    PathClaim(tmp_path).release_path()  # it does not even listen
    squatter.listen(1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    PathClaim(tmp_path, trusted=12346).release_path()
    squatter.close()


def test_any_number_of_starts_is_refused(tmp_path: Path) -> None:
    claim = PathClaim(tmp_path, asking_max=1)
    for _ in range(5):
        with pytest.raises(StartupError, match="in use"):
            PathClaim(tmp_path)
    claim.release_path()
