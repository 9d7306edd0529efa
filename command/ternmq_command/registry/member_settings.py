"""The options and settings with the URL and password of a cluster's registry."""

from dataclasses import dataclass

from ternmq_command.server.server_options import setting_option
from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import BrokerServerSettings, ProxySettings

_OF_BROKER = settings_of(BrokerServerSettings)
REGISTRY_OPTION = setting_option(_OF_BROKER["registry"])
PASSWORD_FILE_OPTION = setting_option(_OF_BROKER["registry_password_file"])
DATA_DIR_OPTION = setting_option(_OF_BROKER["data_dir"])
BROKER_NAME_OPTION = setting_option(_OF_BROKER["broker_name"])


@dataclass(frozen=True, kw_only=True)
class AnyMemberSettings(BrokerServerSettings, ProxySettings):
    """The settings of a broker or a proxy, so that the file and variables of either can be used."""
