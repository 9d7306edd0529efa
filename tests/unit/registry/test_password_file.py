"""The registry's password in a file: whatever it says when a connection is made."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.sql.password_file import PASSWORD_BYTES_MAX
from ternmq_registry.sql.schema import schema_version
from tests.support.postgres import GUARDED, Postgres

FIRST, SECOND = "first / @: secret", "second%secret"


@pytest.fixture
def guarded_url(postgres: Postgres, url: str) -> Iterator[str]:
    """The registry's database, for the user who needs a password, which is `FIRST`."""
    postgres.guard(FIRST)
    yield url.replace("//ternmq@", f"//{GUARDED}@")
    postgres.cut_guarded()


def refusal(url: str, file: Path) -> str:
    with pytest.raises(RegistryUnavailable) as refused:
        Registry.open_postgres(url, password_file=file)
    assert "secret" not in repr(refused.value)
    return refused.value.reason


def test_another_password_needs_no_restart(guarded_url: str, postgres: Postgres, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{FIRST}\n")
    with closing(Registry.open_postgres(guarded_url, password_file=file)) as registry:
        registry.create_group(ConsumerGroup(name="before"))
        postgres.guard(SECOND)
        assert registry.read_snapshot().groups.keys() == {"before"}  # by a connection that is open
        assert postgres.cut_guarded() > 0
        with pytest.raises(RegistryUnavailable, match="password authentication failed") as refused:
            registry.read_brokers()
        assert "secret" not in refused.value.message
        file.write_text(SECOND)
        registry.create_group(ConsumerGroup(name="after"))
        assert registry.read_snapshot().groups.keys() == {"before", "after"}
        shown = repr(vars(registry))
        assert FIRST not in shown
        assert SECOND not in shown


def test_migrations_and_their_questions_read_it_too(guarded_url: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(FIRST)
    assert schema_version(guarded_url, file) is not None
    with pytest.raises(RegistryUnavailable, match="no password supplied"):
        schema_version(guarded_url)


def test_a_file_that_has_no_password_is_said_by_its_name(guarded_url: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    assert (
        refusal(guarded_url, file)
        == f"the file {file} (registry_password_file) can't be read: No such file or directory"
    )
    for content, why in (
        (b"", "has no password in it"),
        (b"\n", "has no password in it"),
        (b"secret\0", "has no password in it"),
        (b"secret\xff", "is no UTF-8 text"),
        (b"secret" * PASSWORD_BYTES_MAX, f"has more than {PASSWORD_BYTES_MAX} bytes"),
    ):
        file.write_bytes(content)
        assert refusal(guarded_url, file) == f"the file {file} (registry_password_file) {why}"
