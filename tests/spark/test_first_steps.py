"""The first snippets of README and of the page on Spark, as somebody runs them who activated nothing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ternmq.testing import Stack
from tests.support.spark import QUICK_JAVA, send_bodies

ROOT = Path(__file__).parents[2]
# Cron's, with Java's.
PATH = os.pathsep.join(["/usr/bin", "/bin", str(Path(shutil.which("java") or "/usr/bin/java").parent)])
SETTINGS = f"--conf spark.ui.enabled=false --driver-java-options '{QUICK_JAVA}'"


def snippet(page: str) -> str:
    """The first one that reads a topic by Spark."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    found: str = next(block for block in blocks if "readStream" in block)
    return found


def test_the_first_snippets_work_in_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    with Stack(test_clock=False) as stack:
        stack.create_topic("orders")
        send_bodies(stack.endpoint, "orders", ["hello"])
        snippets = "\n".join(snippet(page) for page in ("README.md", "docs/spark.md"))
        code = snippets.replace("127.0.0.1:8081", stack.endpoint).replace(
            '"orders")', '"orders").option("startingOffsets", "earliest")'
        )
        script = tmp_path / "first.py"
        script.write_text(
            f"{code}\nfor query in spark.streams.active:\n    query.processAllAvailable()\n    query.stop()\n"
        )
        done = subprocess.run(
            [sys.executable, script],
            env={
                "PATH": PATH,
                "HOME": str(tmp_path),
                "PYSPARK_SUBMIT_ARGS": f"--master local[2] {SETTINGS} pyspark-shell",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout, done.stderr
