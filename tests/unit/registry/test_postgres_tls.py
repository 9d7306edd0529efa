"""The registry in a PostgreSQL that takes TLS alone: who verifies it, and whom."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.sql.schema import migrate_schema
from tests.support.certificates import Certificates
from tests.support.postgres import Postgres

OF_OTHERS = """
    SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def postgres(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres"), certificate=certificates.issue("database")) as server:
        migrate_schema(verifying(server, certificates.ca))
        yield server


def verifying(postgres: Postgres, ca: Path) -> str:
    return f"{postgres.url}?sslmode=verify-full&sslrootcert={ca}"


def refusal(url: str) -> str:
    """What a registry with that URL says when it is opened."""
    with pytest.raises(RegistryUnavailable) as refused:
        Registry.open_postgres(url)
    return refused.value.message


def test_a_server_of_the_right_ca_is_used_and_by_tls_alone(postgres: Postgres, certificates: Certificates) -> None:
    with closing(Registry.open_postgres(verifying(postgres, certificates.ca))) as registry:
        registry.create_group(ConsumerGroup(name="billing"))
        assert "billing" in registry.read_snapshot().groups
        with psycopg.connect(postgres.url) as connection:
            secured, plain = connection.execute(OF_OTHERS).fetchone() or (0, 0)
    assert (secured > 0, plain) == (True, 0)


def test_a_server_of_another_ca_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    assert "certificate verify failed" in refusal(verifying(postgres, Certificates(tmp_path / "others").ca))


def test_a_server_of_another_name_is_refused(postgres: Postgres, certificates: Certificates) -> None:
    named = verifying(postgres, certificates.ca).replace("@127.0.0.1:", "@elsewhere.test:")
    said = refusal(f"{named}&hostaddr=127.0.0.1")
    assert "does not match host name" in said
    assert "elsewhere.test" in said


def test_a_registry_without_tls_is_refused_by_the_server(postgres: Postgres) -> None:
    assert "no encryption" in refusal(f"{postgres.url}?sslmode=disable")
