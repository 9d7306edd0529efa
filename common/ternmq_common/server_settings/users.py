"""Settings of users: the key of their secrets, and the first user."""

from dataclasses import dataclass
from pathlib import Path

from ternmq_common.access.secret_keys import parse_keys
from ternmq_common.access.users import find_secret_problem, find_user_name_problem
from ternmq_common.resources.setting import InvalidSetting, setting
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class UsersSettings(ProcessSettings):
    """The encryption of users' secrets, and the first user."""

    secrets_key_file: Path | None = setting(
        None,
        "File with the key that users' secrets are encrypted with (`ternmq user generate-key`); of several lines "
        "the first encrypts, all decrypt.",
        flag=True, see="security.md#secrets",
    )  # fmt: skip
    secrets_key: str | None = setting(
        None,
        "The key itself, for a variable; none: that of the file, and `ternmq up` creates one for the first user.",
        secret=True, see="security.md#secrets",
    )  # fmt: skip
    init_user: str | None = setting(
        None,
        "Name of a super user that is created at the start while no super user is enabled; its secret is in "
        "$TERNMQ_INIT_SECRET.",
        flag=True, form="NAME", see="security.md#the-first-user",
    )  # fmt: skip
    init_secret: str | None = setting(
        None,
        "The secret of that user, for a variable; none: that of the file, or `ternmq up` generates one and writes "
        "it to a file in its data directory.",
        secret=True, see="security.md#the-first-user",
    )  # fmt: skip
    init_secret_file: Path | None = setting(
        None,
        "File with the secret of that user, which is read when the user must be created, and may be gone later.",
        see="security.md#the-first-user",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.secrets_key is not None:
            if self.secrets_key_file is not None:
                raise InvalidSetting("secrets_key", "a key file (secrets_key_file) is given too; one of both is needed")
            try:
                parse_keys(self.secrets_key)
            except ValueError as error:
                raise InvalidSetting("secrets_key", str(error)) from None
        if self.init_user is not None and (problem := find_user_name_problem(self.init_user)):
            raise InvalidSetting("init_user", problem)
        if self.init_secret is not None:
            if self.init_secret_file is not None:
                raise InvalidSetting("init_secret", "a file (init_secret_file) is given too; one of both is needed")
            if problem := find_secret_problem(self.init_secret):
                raise InvalidSetting("init_secret", problem)
