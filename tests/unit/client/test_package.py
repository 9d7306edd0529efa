"""What `import ternmq` gives, and what it costs those who want less."""

import subprocess
import sys

import pytest

import ternmq


def test_it_has_every_name_that_it_says() -> None:
    assert {name for name in ternmq.__all__ if not hasattr(ternmq, name)} == set()
    assert set(ternmq.__all__) <= set(dir(ternmq))


def test_it_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'ternmq' has no attribute 'Prodcer'"):
        _ = ternmq.Prodcer  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "modules",
    [
        "ternmq.blocking, ternmq.pull.offset_reader, ternmq.admin.clients.client, ternmq.lite.lite_push_consumer",
        "ternmq, ternmq_command.main, ternmq_command.message.follower",
        "ternmq_command.main, ternmq_proxy.server.main",
    ],
)
def test_nothing_needs_the_library_of_grpc(modules: str) -> None:
    program = f"import sys, {modules}; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
