"""Whom a process serves."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class AccessSettings(ProcessSettings):
    """Who may call, and what is written down of it."""
