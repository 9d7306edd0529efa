"""Credentials are in no plan, no log, no event log and on no page of Spark's."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ternmq.testing import Stack
from tests.spark.jobs.with_secrets import SECRETS
from tests.support.spark import send_bodies

ROOT = Path(__file__).parents[2]
PAGES = ("environment/", "SQL/", "stages/", "jobs/", "StreamingQuery/", "executors/")
HIDDEN = tuple(SECRETS.values())


def test_credentials_show_nowhere(stack: Stack, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic()
    stack.create_topic(f"{topic}-copy")
    send_bodies(stack.endpoint, topic, ["a", "b"])
    (tmp_path / "events").mkdir()
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.jobs.with_secrets", stack.endpoint, topic, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as job,
    ):
        assert job.stdin is not None
        assert job.stdout is not None
        try:
            address = job.stdout.readline().decode().strip()
            assert address.startswith("http"), (tmp_path / "log").read_text()[-2000:]
            pages = {page: got(f"{address}/{page}") for page in PAGES}
            api = f"{address}/api/v1/applications"
            [application] = json.loads(got(api))
            queries = json.loads(got(f"{api}/{application['id']}/sql?details=true&planDescription=true"))
            pages |= {f"SQL/execution/?id={query['id']}": "" for query in queries}
            pages |= {page: got(f"{address}/{page}") for page in pages if page.startswith("SQL/execution")}
        finally:
            job.stdin.close()
            job.wait(60)
    assert len(queries) >= 3
    assert "BatchScan" in json.dumps(queries)
    [events] = [file for file in (tmp_path / "events").rglob("*") if file.is_file() and file.name.startswith("events_")]
    texts = {**pages, "log": (tmp_path / "log").read_text(), "events": events.read_text(), "sql": json.dumps(queries)}
    assert "no option 'nosuch'" in texts["log"]
    for checkpoint in (tmp_path / "checkpoint").rglob("*"):
        if checkpoint.is_file():
            texts[checkpoint.name] = checkpoint.read_bytes().decode("latin-1")
    for where, text in texts.items():
        assert not [secret for secret in HIDDEN if secret in text], where


def got(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        body: bytes = answer.read()
    return body.decode()
