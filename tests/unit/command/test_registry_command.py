"""`ternmq registry`: the schema of a real PostgreSQL, and what is said when it can't be had."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.migrations import NEWEST
from ternmq_registry.sql import schema
from tests.support.postgres import Postgres
from tests.unit.command.conftest import Call


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    name = postgres.new_database()
    yield postgres.url_of(name, user="ternmq:hush")
    postgres.drop_database(name)


def test_a_migration_says_what_it_did(call: Call, url: str) -> None:
    shown = url.replace("hush", "***")
    first = call("registry", "migrate", "--registry", url)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == f"the registry {shown} was migrated from no schema to schema {NEWEST}\n"
    assert schema.schema_version(url) == NEWEST
    told = json.loads(call("registry", "migrate", "--registry", url, "--json").stdout)
    assert told["before"] == told["after"] == NEWEST
    again = call("registry", "migrate", "--registry", url)
    assert (again.exit_code, again.stdout) == (0, f"the registry {shown} already has schema {NEWEST}\n")


def test_the_version_is_told_to_people_and_programs(call: Call, url: str) -> None:
    before = call("registry", "version", "--registry", url)
    assert before.stdout == f"no schema; this version needs {NEWEST}\n"
    told = json.loads(call("registry", "version", "--json", "--registry", url).stdout)
    assert told == {"schema": None, "needed": NEWEST}
    call("registry", "migrate", "--registry", url)
    after = call("registry", "version", "--registry", url)
    assert (after.exit_code, after.stdout) == (0, f"schema {NEWEST}\n")


def test_the_url_may_be_in_a_variable_or_in_the_file_of_a_broker_or_a_proxy(
    call: Call, url: str, tmp_path: Path
) -> None:
    by_variable = call("registry", "migrate", env={"TERNMQ_REGISTRY": url, "TERNMQ_BROKER_NAME": "b1"})
    assert by_variable.exit_code == 0
    for setting in ('storage = "127.0.0.1:0"', 'proxy_name = "p"'):
        file = tmp_path / "ternmq.toml"
        file.write_text(f'registry = "{url}"\n{setting}\n')
        assert call("registry", "version", "--config", str(file)).stdout == f"schema {NEWEST}\n"


def test_a_migration_waits_for_its_database(
    call: Call, postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.stop()
    refused = threading.Event()
    real_migrate = schema.migrate_schema

    def migrate(url: str, password_file: Path | None) -> schema.MigrationResult:
        try:
            return real_migrate(url, password_file)
        except RegistryUnavailable:
            refused.set()
            raise

    monkeypatch.setattr(schema, "migrate_schema", migrate)

    def start_when_refused() -> None:
        refused.wait(30)
        postgres.start()

    starting = threading.Thread(target=start_when_refused)
    starting.start()
    result = call("registry", "migrate", "--registry", url, "--wait", "60s")
    starting.join()
    assert result.exit_code == 0
    assert NEWEST in result.stdout


def test_a_database_that_stays_away_is_one_line_and_exit_code_3(call: Call) -> None:
    nowhere = "postgresql://ternmq:hush@127.0.0.1:1/ternmq"
    for arguments in (("migrate", "--wait", "0s"), ("version",)):
        result = call("registry", *arguments, "--registry", nowhere)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith("ternmq: the registry can't be reached: ")
        assert result.stderr.endswith("; check --registry\n")
        assert len(result.stderr.splitlines()) == 1
        assert "hush" not in result.stderr


def test_a_database_of_another_kind_is_refused(call: Call) -> None:
    result = call("registry", "migrate", "--registry", "mysql://u:hush@h/db")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "mysql://u:***@h/db is no PostgreSQL database" in result.stderr


def test_wrong_settings_are_wrong_usage(call: Call) -> None:
    result = call("registry", "migrate", env={"TERNMQ_REGISTRYY": "x"})
    assert (result.exit_code, result.stderr) == (
        2,
        "ternmq: unknown variable TERNMQ_REGISTRYY; did you mean 'TERNMQ_REGISTRY'?\n",
    )
