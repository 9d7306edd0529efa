"""The names of the settings that a test can give to a broker."""

from collections.abc import Iterable

from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import ServerSettings
from ternmq_common.settings import SettingsError, did_you_mean


def check_names(names: Iterable[str], *, without: frozenset[str] = frozenset()) -> None:
    """SettingsError, with the nearest name, if it is not a setting of `ternmq up`, or is among `without`."""
    known = settings_of(ServerSettings).keys() - without
    for name in names:
        if name not in known:
            raise SettingsError(f"unknown setting {name!r}{did_you_mean(name, known)}")
