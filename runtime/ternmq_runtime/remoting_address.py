"""Chooses the address of the remoting front where the setting leaves it open."""

import logging
from dataclasses import replace
from typing import TypeVar

from ternmq_common.addresses import DEFAULT_REMOTING
from ternmq_common.errors import StartupError
from ternmq_common.server_settings.front import OFF, FrontSettings
from ternmq_rpc.serving.sockets import bind_socket

_log = logging.getLogger(__name__)
Settings = TypeVar("Settings", bound=FrontSettings)


def choose_remoting(settings: Settings) -> Settings:
    """Return settings with the default address of the remoting front, or without one if others listen there: a server
    must not fail because of a default port."""
    if settings.remoting is not None:
        return settings
    try:
        bind_socket(DEFAULT_REMOTING).close()
    except StartupError as error:
        _log.warning(
            "not serving the remoting protocol of RocketMQ 4.x: %s; choose another address by --remoting, or "
            "--remoting off",
            error,
        )
        return replace(settings, remoting=OFF)
    return replace(settings, remoting=DEFAULT_REMOTING)
