"""A DAG of Airflow that brings what is new in topics into the lake, once an hour.

Needs the standard provider, and `ternmq` with its extra `spark` where the task runs. Keys come from the environment of
the worker ($TERNMQ_ACCESS_KEY, $TERNMQ_SECRET_KEY). The next run makes up for a killed one: the
checkpoint in the lake knows where it was.
"""

import shlex
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

COMMAND = [
    "ternmq",
    "pipeline",
    "lake",
    "--endpoint=127.0.0.1:8081",
    "--topics=orders",
    "--out=/data/lake",
    "--compact",
]

with DAG(
    "ternmq_lake",
    schedule="5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # Missed messages are in the topic: one run takes all of them.
    catchup=False,
    # A checkpoint is for one process at a time.
    max_active_runs=1,
):
    # The last line, which is the report, is the task's XCom.
    BashOperator(
        task_id="lake",
        bash_command=shlex.join(COMMAND),
        retries=2,
        retry_delay=timedelta(minutes=6),
        execution_timeout=timedelta(hours=2),
    )
