"""Settings of users: the key of their secrets, and the first user."""

from dataclasses import dataclass, field
from pathlib import Path

from ternmq_common.access.secret_keys import parse_keys
from ternmq_common.access.users import find_secret_problem, find_user_name_problem
from ternmq_common.server_settings.process import ProcessSettings
from ternmq_common.settings import InvalidSetting


@dataclass(frozen=True, kw_only=True)
class UsersSettings(ProcessSettings):
    """How secrets of users are kept, and who is the first user."""

    secrets_key_file: Path | None = None
    """File with the key that users' secrets are encrypted with; of several lines the first encrypts, all decrypt."""

    secrets_key: str | None = field(default=None, repr=False)
    """The key itself, for a variable; none: that of the file, and `ternmq up` creates one for the first user."""

    init_user: str | None = None
    """Name of a super user that is created at the start while no super user is enabled."""

    init_secret: str | None = field(default=None, repr=False)
    """The secret of that user, for a variable; none: that of the file, or `ternmq up` generates one and writes it to a
    file in its data directory."""

    init_secret_file: Path | None = None
    """File with the secret of that user, which is read when the user must be created, and may be gone later."""

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
