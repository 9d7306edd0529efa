"""The demo's second part, `--spark`: checks what must be installed, and runs it; `spark_run` uses Spark itself.

The module is imported only with `--spark`.
"""

import importlib.util
import os
from typing import TYPE_CHECKING

from ternmq_command.pipeline.options import check_spark
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.printing import echo_lines
from ternmq_common.installing import install_hint

if TYPE_CHECKING:
    from ternmq_command.demo.ledger import Ledger
    from ternmq_command.demo.replay import DemoFolders


def check_requirements() -> None:
    """Raise WrongUsage for missing packages, before the first part, which takes minutes."""
    check_spark()
    if importlib.util.find_spec("matplotlib") is None:
        raise WrongUsage(f"matplotlib is not installed: {install_hint('demo-spark')}")
    from pyspark_ternmq.pipelines.sessions.session import JAVA_NEEDED, find_java

    if find_java() is None:
        raise WrongUsage(JAVA_NEEDED)
    # Java is started by a fork, about which gRPC, already started by the first part, would print a line.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def run_second_part(folders: "DemoFolders", ledger: "Ledger") -> int:
    """Run the second part; return the exit code, 1 if the lake lacks acknowledged flights."""
    from ternmq_command.demo.lake.second_report import print_output
    from ternmq_command.demo.lake.spark_run import spark_run

    try:
        output = spark_run(folders, ledger)
    except KeyboardInterrupt:
        echo_lines("\nstopped; run it again to continue", err=True)
        raise
    print_output(output)
    return 0 if output.account.is_right else 1
