"""Airflow and Dagster run their examples of `deploy/spark` once each: `python -m tests.spark.orchestrators`, which
tools/soak runs.

Each has a virtual environment with its published packages, in build/orchestrators or the folder of `--environments`.
The task runs the `ternmq` beside this Python. The examples are taken as they are, but for endpoint and folder, and the
lake has to have each message once.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset

from ternmq.testing import Stack
from tests.spark.lake_files import numbered, send

ROOT = Path(__file__).parents[2]
MESSAGES = 200
INSTALL_S, RUN_S = 1800, 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """One of them: what pip installs, its example, and the commands that run it, in an environment with `variables`;
    "{home}" is an empty folder, "{example}" the file."""

    packages: tuple[str, ...]
    example: str
    commands: tuple[tuple[str, ...], ...]
    variables: dict[str, str]


ORCHESTRATORS = {
    "airflow": Orchestrator(
        packages=("apache-airflow>=3,<4", "apache-airflow-providers-standard"),
        example="airflow_lake.py",
        commands=(
            ("airflow", "db", "migrate"),
            ("airflow", "dags", "test", "ternmq_lake"),
        ),
        variables={
            "AIRFLOW_HOME": "{home}",
            "AIRFLOW__CORE__DAGS_FOLDER": "{home}/dags",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        },
    ),
    "dagster": Orchestrator(
        packages=("dagster>=1.13,<2",),
        example="dagster_lake.py",
        commands=(("dagster", "asset", "materialize", "-f", "{example}", "--select", "lake"),),
        variables={"DAGSTER_HOME": "{home}"},
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=ROOT / "build/orchestrators")
    parser.add_argument("--only", choices=list(ORCHESTRATORS))
    arguments = parser.parse_args()
    failed = 0
    for name, orchestrator in ORCHESTRATORS.items():
        if arguments.only not in (None, name):
            continue
        environment = arguments.environments / name
        install_packages(environment, orchestrator)
        with tempfile.TemporaryDirectory() as folder:
            problem = run_example(orchestrator, environment, Path(folder))
        print(f"{name}: {problem or f'{MESSAGES} messages are in the lake, each once'}", flush=True)
        failed += problem is not None
    return failed


def install_packages(environment: Path, orchestrator: Orchestrator) -> None:
    if (environment / "bin" / orchestrator.commands[0][0]).exists():
        return
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=INSTALL_S)
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *orchestrator.packages], check=True, timeout=INSTALL_S)


def run_example(orchestrator: Orchestrator, environment: Path, folder: Path) -> str | None:
    """What is wrong; None if all is well."""
    home, lake = folder / "home", folder / "lake"
    example = home / "dags" / orchestrator.example
    example.parent.mkdir(parents=True)
    # Behind those of the orchestrator is this environment's, for `ternmq`.
    variables = {name: text.format(home=home) for name, text in orchestrator.variables.items()}
    path = os.pathsep.join([str(environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    with Stack(test_clock=False) as stack:
        stack.create_topic("orders")
        send(stack, "orders", *numbered("orders", range(MESSAGES)))
        text = (ROOT / "deploy/spark" / orchestrator.example).read_text()
        changed = text.replace("127.0.0.1:8081", stack.endpoint).replace("/data/lake", str(lake))
        assert str(lake) in changed
        assert stack.endpoint in changed
        example.write_text(changed)
        for command in orchestrator.commands:
            words = [word.format(home=home, example=example) for word in command]
            done = subprocess.run(
                words,
                env={**os.environ, **variables, "PATH": path},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=RUN_S,
                check=False,
            )
            if done.returncode:
                return f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-4000:]}"
    return check_lake(lake)


def check_lake(lake: Path) -> str | None:
    if not (lake / "data").is_dir():
        return f"there is no lake: {sorted(lake.rglob('*'))[:10]}"
    table = pyarrow.dataset.dataset(lake / "data", format="parquet").to_table(columns=["message_id"])
    found = Counter(table.column("message_id").to_pylist())
    expected = Counter(f"id-{number}" for number in range(MESSAGES))
    if found == expected:
        return None
    return f"{(expected - found).total()} messages are missing, {(found - expected).total()} too many"


if __name__ == "__main__":
    sys.exit(main())
