"""Measures a lake on a small machine: `python -m benchmarks.throttled_lake [--cpus 0.3] [--messages 100000]`.

Runs `ternmq pipeline lake` and all that it starts (Java, Python workers) in a control group with limited processor
time, as in the container of a CronJob, and prints how long it took, what it used and how often it restarted. The broker
is outside of the limit. Fails unless every message is in the lake once.

Needs root, and a writable hierarchy of control groups, of version 1 or 2.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.ready_batches import QUEUES, message
from ternmq.admin import topics as topic_calls
from ternmq.blocking import Producer
from ternmq_command.calls.admin import AdminClient
from tests.support.stack import Stack

TOPIC = "throttled"
CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
EMPTY_LOOK_S, EMPTY_LOOKS = 0.1, 100
STARTS_AGAIN = "starting again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpus", type=float, default=0.3)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Stack(Path(name) / "broker") as stack:
        folder = Path(name)
        fill(stack.grpc, arguments.messages)
        with limited(arguments.cpus) as groups:
            begun_s = time.monotonic()
            output = run_lake(groups, stack.grpc, folder / "lake", arguments.master)
            took_s = time.monotonic() - begun_s
            used = used_text(groups)
        check(folder / "lake", arguments.messages)
    again = sum(STARTS_AGAIN in line for line in output.splitlines())
    print(f"{arguments.messages:,} messages with {arguments.cpus} CPUs: {took_s:.0f} s, started again {again} times")
    print(used)


def fill(endpoint: str, messages: int) -> None:
    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic(TOPIC, "normal", QUEUES))
    with Producer(endpoint, [TOPIC]) as producer:
        for start in range(0, messages, 1000):
            producer.send_many([message(TOPIC, number) for number in range(start, min(start + 1000, messages))])


@contextmanager
def limited(cpus: float) -> Iterator[Sequence[Path]]:
    """Create control groups for the block: the first may use so many processors, the last knows what was used."""
    is_first_version = (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists()
    parents = [CGROUPS / "cpu", CGROUPS / "cpuacct"] if is_first_version else [CGROUPS]
    groups = [parent / "ternmq-throttled-lake" for parent in parents]
    quota_us = round(cpus * PERIOD_US)
    for group in groups:
        group.mkdir()
    try:
        if is_first_version:
            (groups[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (groups[0] / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (groups[0] / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        yield groups
    finally:
        for group in groups:
            remove(group)


def remove(group: Path) -> None:
    """Remove a group, which a process leaves a moment after it has ended."""
    for _ in range(EMPTY_LOOKS):
        if not (group / "cgroup.procs").read_text().strip():
            break
        time.sleep(EMPTY_LOOK_S)
    group.rmdir()


def run_lake(groups: Sequence[Path], endpoint: str, out: Path, master: str) -> str:
    """Run the command; return its standard error, which is shown as it is written."""
    lake = [sys.executable, "-m", "ternmq_command.main", "pipeline", "lake", "--topics", TOPIC, "--out", str(out)]
    # A shell enters the groups and becomes the command.
    enter = "".join(f"echo $$ >{group / 'cgroup.procs'}; " for group in groups)
    command = ["sh", "-ec", f'{enter} exec "$@"', "sh", *lake, "--endpoint", endpoint, "--master", master]
    output = list[str]()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            output.append(line)
            sys.stderr.write(line)
    if process.returncode:
        sys.exit(f"the pipeline ended with {process.returncode}")
    return "".join(output)


def check(lake: Path, messages: int) -> None:
    ids = ds.dataset(lake / "data", format="parquet", partitioning="hive").to_table(columns=["message_id"])
    once = pc.count_distinct(ids.column("message_id")).as_py()
    if not len(ids) == once == messages:
        sys.exit(f"{len(ids):,} rows with {once:,} ids are in the lake, of {messages:,} messages")


def used_text(groups: Sequence[Path]) -> str:
    """Return the processor time, and how long the processes were throttled."""
    fields = dict(line.split() for line in (groups[0] / "cpu.stat").read_text().splitlines())
    if "usage_usec" in fields:
        used_s = int(fields["usage_usec"]) / 1e6
    else:
        used_s = int((groups[-1] / "cpuacct.usage").read_text()) / 1e9
    return f"{used_s:.1f} CPU s; held back in {fields['nr_throttled']} of {fields['nr_periods']} periods"


if __name__ == "__main__":
    main()
