"""What a user reads who has not installed what a part of the client needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("integrations.faststream", "faststream", "faststream"),
        ("integrations.taskiq", "taskiq", "taskiq"),
        ("outbox", "sqlalchemy", "outbox"),
    ],
)
def test_without_a_package_the_error_says_what_to_install(module: str, package: str, extra: str) -> None:
    program = f"import sys; sys.modules['{package}'] = None; import ternmq.{module}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: ternmq.{module} needs the package {package}: ")
    assert last.endswith(f"pip install '.[{extra}]'")
