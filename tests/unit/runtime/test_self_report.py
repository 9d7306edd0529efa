"""What a process says of itself, and the limits of its log levels."""

from pathlib import Path

import pytest

from ternmq_common.server_settings import ProxySettings, ServerSettings
from ternmq_runtime.logs import log_control
from ternmq_runtime.observability.self_report import masked_settings

SECRET = "hunter2"


def test_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    shown = masked_settings(ProxySettings(registry=f"postgresql://ternmq:{SECRET}@db:5432/ternmq"))
    assert SECRET not in str(shown)
    assert shown["registry"].endswith("@db:5432/ternmq")
    assert masked_settings(ServerSettings(data_dir=tmp_path))["data_dir"] == str(tmp_path)


def test_loggers_can_not_be_named_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_control, "_named", {"one", "two"})
    assert log_control.parse_levels("info,one=debug,three=debug", names_max=3).named.keys() == {"one", "three"}
    with pytest.raises(ValueError, match="more than 3 loggers"):
        log_control.parse_levels("info,three=debug,four=debug", names_max=3)
