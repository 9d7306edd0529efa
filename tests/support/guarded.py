"""`ternmq up` with TLS and access control as an operator sets them up: certificates of `ternmq tls dev-ca`, and a super
user who makes the others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from ternmq import Credentials, TlsOptions
from ternmq.blocking import Admin
from tests.support.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROOT = Credentials("root", "the-secret-of-the-first-user")


class GuardedStack(Stack):
    """A guarded server: `with GuardedStack(tmp_path) as stack: ... stack.admin()`.

    `clock_ahead_s`, set before `start`, is how far the machine's clock is ahead, as this server sees it.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        certificates: Path | None = None,
        tls: str = "required",
        access_control: bool = True,
    ) -> None:
        """`certificates` is a folder of `dev_certificates`: no TLS without it."""
        self.ca = certificates and certificates / "ca.pem"
        self.credentials = ROOT if access_control else None
        self.clock_ahead_s = 0
        guards, environment = list[str](), dict[str, str]()
        if certificates:
            files = ("--tls-cert", str(certificates / "server.pem"), "--tls-key", str(certificates / "server.key"))
            guards += ("--grpc-tls", tls, *files)
        if access_control:
            guards += ("--access-control", "--init-user", ROOT.access_key)
            environment = {"TERNMQ_INIT_SECRET": ROOT.secret_key}
        super().__init__(folder, *guards, *options, environment=environment)

    def command(self) -> Sequence[str]:
        command = list(super().command())
        if self.clock_ahead_s:
            # In the place of `-m`: what comes after it stays.
            module = command.index("-m")
            command[module + 1 : module + 1] = ["tests.support.clock_ahead", str(self.clock_ahead_s)]
        return command

    def admin(self) -> Admin:
        """The super user, by the way that the server asks for."""
        tls = TlsOptions(ca=self.ca) if self.ca else False
        return Admin(self.grpc, credentials=self.credentials, tls=tls)


def dev_certificates(folder: Path) -> Path:
    """The folder, with what `ternmq tls dev-ca` makes in it."""
    command = [sys.executable, "-m", "ternmq_command.main", "tls", "dev-ca", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise AssertionError(f"{command}: {made.stderr}")
    return folder
