"""What `TernmqContainer` says without Docker; what it does with it is in tests/containers."""

import importlib
import sys

import pytest

from ternmq.testing import containers
from ternmq_common.settings import SettingsError


def test_settings_that_do_not_exist_or_belong_to_the_image_are_refused() -> None:
    with pytest.raises(SettingsError, match="unknown setting 'retenton_ms'; did you mean 'retention_ms'"):
        containers.TernmqContainer(retenton_ms="3d")
    for name in ("grpc", "http", "data_dir"):
        with pytest.raises(SettingsError, match=f"unknown setting '{name}'"):
            containers.TernmqContainer(**{name: "127.0.0.1:1"})


def test_without_testcontainers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, containers.__name__)
    monkeypatch.setitem(sys.modules, "testcontainers", None)
    monkeypatch.setitem(sys.modules, "testcontainers.core", None)
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", None)
    with pytest.raises(ModuleNotFoundError, match=r"in a checkout of TernMQ, run pip install '\.\[testing\]'"):
        importlib.import_module(containers.__name__)
