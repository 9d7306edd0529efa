"""How a proxy comes to its registry: with the first super user, whichever of several processes makes it."""

import asyncio
from pathlib import Path

from ternmq_common.server_settings import ProxySettings
from ternmq_proxy.server.registry_joining import _make_user
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.registry import Registry
from ternmq_registry.security.secret_encryption import SecretEncryption

SECRET_ENCRYPTION = SecretEncryption([b"k" * 32])
SETTINGS = ProxySettings(
    registry="postgresql://ternmq@db.example/ternmq", init_user="root", init_secret="a-secret-of-a-test"
)


async def test_who_finds_that_another_process_made_the_first_user_knows_it_too(tmp_path: Path) -> None:
    """Between its reading of the registry and its look whether there is such a user."""
    registries = [
        await asyncio.to_thread(Registry.open_sqlite, tmp_path / "registry.db", SECRET_ENCRYPTION) for _ in range(2)
    ]
    directories = [RegistryDirectory(registry, interval_s=None) for registry in registries]
    for directory in directories:
        await directory.start()
    for directory in directories:
        await _make_user(directory, SETTINGS)
        assert "root" in directory.snapshot.access.users
    for registry in registries:
        registry.close()
