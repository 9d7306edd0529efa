"""The copy of the registry in a broker's data directory, and when a broker may start with it.

A broker that is started while the registry is away may do what a running one may do then: it is where proxies look for
it, and its store is the one that had the name. It learns the registry's later changes when that is back, as any broker
does (`Lease`): that the store was removed, or that another process has its name.
"""

from typing import TYPE_CHECKING

from ternmq_broker.server.store_identity import known_store_id
from ternmq_registry.copies.copy_file import CopyFile
from ternmq_registry.copies.copy_form import UnusableCopy
from ternmq_registry.copies.copy_keeper import CopyKeeper, reduce_for_broker
from ternmq_registry.sql.database import registry_identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from ternmq_broker.server.deletion_log import DeletionLog
    from ternmq_common.server_settings import BrokerServerSettings
    from ternmq_registry.copies.copy_form import RegistryCopy
    from ternmq_registry.directory import RegistryDirectory

FILE = "registry-copy"


def copy_file(settings: "BrokerServerSettings") -> CopyFile:
    """The file of the broker's copy. StartupError for a URL that names no registry."""
    return CopyFile(
        path=settings.data_dir / FILE,
        registry=registry_identity(settings.registry),
        holder=f"broker {settings.broker_name}",
        age_max_ms=settings.registry_copy_max_age_ms,
        makes_folder=False,
    )


def check_copy_fits(settings: "BrokerServerSettings", address: str) -> "Callable[[RegistryCopy], None]":
    """Create a check that raises UnusableCopy for a copy by which this process is not the broker.

    `address` is where proxies reach this process. The check blocks. A broker with replicas waits for the registry
    anyhow.
    """

    def check_copy(copy: "RegistryCopy") -> None:
        entry = copy.snapshot.brokers.get(settings.broker_name)
        if settings.replicas > 1 or (entry is not None and entry.replicas):
            return
        if entry is None:
            raise UnusableCopy(f"it has no broker {settings.broker_name!r}")
        own = known_store_id(settings.data_dir)
        if entry.store_id != own:
            raise UnusableCopy(
                f"the broker has store {entry.store_id} by it, and this data directory has {own or 'none'}"
            )
        if entry.address != address:
            raise UnusableCopy(f"by it proxies look for the broker at {entry.address}, and this one is at {address}")

    return check_copy


def keep_copy(
    directory: "RegistryDirectory", file: CopyFile, stack: "AsyncExitStack", deletion_log: "DeletionLog | None" = None
) -> CopyKeeper:
    """Keep the copy up to date until `stack` ends it; with the deletions that a serving broker has done."""
    keeper = CopyKeeper(
        directory,
        file,
        shown=reduce_for_broker,
        synced_up_to=lambda: 0 if deletion_log is None else deletion_log.synced_up_to,
    )
    stack.push_async_callback(keeper.stop)
    keeper.start()
    return keeper
