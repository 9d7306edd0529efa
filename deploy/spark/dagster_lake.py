"""An asset of Dagster: the lake with what is new in topics, once an hour.

Needs `ternmq` with its extra `spark` where the asset is materialized. Keys come from the environment of that process
($TERNMQ_ACCESS_KEY, $TERNMQ_SECRET_KEY). The next run makes up for a killed one.
"""

import json
import subprocess

import dagster

COMMAND = [
    "ternmq",
    "pipeline",
    "lake",
    "--endpoint=127.0.0.1:8081",
    "--topics=orders",
    "--out=/data/lake",
    "--compact",
    "--json",
]


# A checkpoint is for one process at a time: give the pool `lake` the limit 1.
@dagster.asset(pool="lake", retry_policy=dagster.RetryPolicy(max_retries=2, delay=360))
def lake(context: dagster.AssetExecutionContext) -> dagster.MaterializeResult:
    """Topics as Parquet files, each message once."""
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    context.log.info(done.stderr)
    if done.returncode:
        raise dagster.Failure(done.stderr[-2000:])
    return dagster.MaterializeResult(metadata=json.loads(done.stdout))


defs = dagster.Definitions(
    assets=[lake],
    schedules=[dagster.ScheduleDefinition(name="lake_hourly", target=[lake], cron_schedule="5 * * * *")],
)
