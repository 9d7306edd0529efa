"""Apache RocketMQ with TLS, and, if it is given a super user, with authentication and authorization."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ternmq_common.signing import AUTHORIZATION_HEADER, DATE_HEADER, authorization_header
from tests.interop.apache_rocketmq import ApacheRocketMQ

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

PROVIDERS = "org.apache.rocketmq.auth.{}.provider"


class GuardedApacheRocketMQ(ApacheRocketMQ):
    """One proxy in local mode, whose port takes TLS and plain text."""

    def __init__(
        self, certificates: Path | None, *, super_user: tuple[str, str] | None = None, **broker_settings: str | int
    ) -> None:
        """`certificates` is the folder of `ternmq tls dev-ca`; with none the port shows Apache RocketMQ's own. There is
        no access control without `super_user`, which is name and secret."""
        super().__init__(**broker_settings)
        self._certificates, self._super_user = certificates, super_user

    def create_user(self, name: str, secret: str, *resources: str, actions: str = "Pub,Sub") -> None:
        """A user that may do this with these resources, such as `Topic:orders`."""
        self.admin("createUser", "-u", name, "-p", secret)
        for resource in resources:
            self.admin("createAcl", "-s", f"User:{name}", "-r", resource, "-a", actions, "-d", "Allow")

    def disable_user(self, name: str) -> None:
        self.admin("updateUser", "-u", name, "-s", "disable")

    def _start_namesrv(self, started: ExitStack) -> None:
        if self._super_user:
            name, secret = self._super_user
            # Whom the admin tool comes as.
            tools = self._home / "conf" / "tools.yml"
            tools.parent.mkdir()
            tools.write_text(f"accessKey: {name}\nsecretKey: {secret}\n")
        super()._start_namesrv(started)

    def _metadata(self) -> Sequence[tuple[str, str]]:
        plain = super()._metadata()
        if not self._super_user:
            return plain
        date = datetime.now(UTC).isoformat()
        return (*plain, (DATE_HEADER, date), (AUTHORIZATION_HEADER, authorization_header(*self._super_user, date)))

    def _broker_settings(self) -> dict[str, str | int]:
        return {
            **super()._broker_settings(),
            **self._access_settings(kind="org.apache.rocketmq.auth.{}.provider.Local{}"),
        }

    def _proxy_settings(self) -> dict[str, str | int | bool]:
        # It asks the broker, which is in the same process: users and policies are in the broker's store.
        access = self._access_settings(kind="org.apache.rocketmq.proxy.auth.Proxy{1}")
        return {**super()._proxy_settings(), **self._certificate_settings(), **access}

    def _certificate_settings(self) -> dict[str, str | bool]:
        if self._certificates is None:
            return {}
        files = {"tlsCertPath": "server.pem", "tlsKeyPath": "server.key"}
        return {"tlsTestModeEnable": False, **{name: str(self._certificates / file) for name, file in files.items()}}

    def _access_settings(self, *, kind: str) -> dict[str, str]:
        """Whom both serve; `kind` is how the classes are named that know the users."""
        if not self._super_user:
            return {}
        name, secret = self._super_user
        return {
            "authenticationEnabled": "true",
            "authenticationProvider": f"{PROVIDERS.format('authentication')}.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": kind.format("authentication", "AuthenticationMetadataProvider"),
            "initAuthenticationUser": json.dumps({"username": name, "password": secret}),
            "innerClientAuthenticationCredentials": json.dumps({"accessKey": name, "secretKey": secret}),
            "authorizationEnabled": "true",
            "authorizationProvider": f"{PROVIDERS.format('authorization')}.DefaultAuthorizationProvider",
            "authorizationMetadataProvider": kind.format("authorization", "AuthorizationMetadataProvider"),
        }
