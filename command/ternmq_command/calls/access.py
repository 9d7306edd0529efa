"""The options of TLS and keys by which a command's calls reach a server.

Sources   the command line, then variables, then the context whose endpoint is used; a context on the command line takes
          precedence over variables, and the options of a context are for its own server only
Keys      come from one source together. The secret is in the credentials file or in $TERNMQ_SECRET_KEY and never in an
          argument, which every user of a machine can read; $TERNMQ_SESSION_TOKEN belongs to the variable
One call  of the command talks to one server, so its options are kept with the call (`click.Context.meta`), and read
          where connections are opened
"""

import os
from typing import TYPE_CHECKING, Any

import click

from ternmq_command.terminal.failures import CallRefused, WrongUsage
from ternmq_command.terminal.options import ACCESS_KEY, CONTEXT_ACCESS_KEY, TYPED_CONTEXT_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq.connections.credentials import Credentials, CredentialsSource
    from ternmq.connections.tls import TlsOptions
    from ternmq.options import ClientOptions

KEY_VARIABLES = ("TERNMQ_ACCESS_KEY", "TERNMQ_SECRET_KEY", "TERNMQ_SESSION_TOKEN")
_UNAUTHORIZED = 40100
_TLS_FILES = ("ca", "client_cert", "client_key")


class AccessOptions:
    """The options of TLS and keys; of several sources, the first takes precedence."""

    def __init__(self, sources: "list[Mapping[str, Any]]") -> None:
        self._sources = sources

    def tls_options(self) -> "TlsOptions | None":
        """Return the options of TLS, None for a plain connection; any option of TLS implies TLS. Raises WrongUsage."""
        options = {name: self._first_value(name) for name in (*_TLS_FILES, "server_name")}
        if not self._first_value("tls") and not any(options.values()):
            return None
        from ternmq.connections.tls import TlsOptions

        try:
            return TlsOptions(**options)
        except ValueError:
            raise WrongUsage("--client-cert and --client-key belong together: one of them is missing") from None

    def credentials(self) -> "CredentialsSource | None":
        """Return the credentials, None without keys; raises WrongUsage for incomplete keys and for an unusable file."""
        source = next((one for one in self._sources if one.get("access_key") or one.get("credentials_file")), None)
        if source is None:
            return None
        access_key, file = source.get("access_key"), source.get("credentials_file")
        if file:
            return _read_credentials_file(str(file), access_key)
        from ternmq.connections.credentials import Credentials

        _, secret_variable, token_variable = KEY_VARIABLES
        secret_key = os.environ.get(secret_variable)
        if not secret_key:
            raise WrongUsage(f"the secret of {access_key} is missing", hint=f"--credentials-file or ${secret_variable}")
        try:
            return Credentials(str(access_key), secret_key, os.environ.get(token_variable))
        except ValueError as error:
            raise WrongUsage(str(error)) from None

    def current_credentials(self) -> "Credentials | None":
        """Return the credentials as they are now: a file is read again."""
        credentials = self.credentials()
        return credentials() if callable(credentials) else credentials

    def client_options(self) -> "ClientOptions":
        """Return the same as options of the Python client."""
        return {"tls": self.tls_options() or False, "credentials": self.credentials()}

    def _first_value(self, name: str) -> Any:  # noqa: ANN401 - a flag or a text
        return next((one[name] for one in self._sources if one.get(name)), None)


def current_access() -> AccessOptions:
    """Return the options of the command's call in this thread; empty outside of a call."""
    context = click.get_current_context(silent=True)
    if context is None:
        return AccessOptions([])
    typed, variables = context.meta.get(ACCESS_KEY, ({}, {}))
    is_of_context = context.get_parameter_source("endpoint") in {None, click.core.ParameterSource.DEFAULT}
    of_context = context.meta.get(CONTEXT_ACCESS_KEY, {}) if is_of_context else {}
    if context.meta.get(TYPED_CONTEXT_KEY):
        return AccessOptions([typed, of_context, variables])
    return AccessOptions([typed, variables, of_context])


def explain_refusal(code: int, message: str) -> CallRefused:
    """Return the failure for a server's refusal; for missing rights it has a hint what to check."""
    hint = None
    if code == _UNAUTHORIZED:
        has_keys = current_access().credentials() is not None
        hint = (
            "check the keys, the user's policies and this machine's clock"
            if has_keys
            else "give a user: --access-key and $TERNMQ_SECRET_KEY, or --credentials-file"
        )
    return CallRefused(code, message, hint=hint)


def _read_credentials_file(path: str, access_key: str | None) -> "CredentialsSource":
    """Return a credentials file after reading it once, so that its errors show before the first call."""
    from ternmq.connections.credentials import CredentialsFile
    from ternmq.errors import UnusableFile

    file = CredentialsFile(path)
    try:
        found = file()
    except UnusableFile as error:
        raise WrongUsage(str(error)) from None
    if access_key and access_key != found.access_key:
        raise WrongUsage(f"{path} has the keys of {found.access_key}, not of {access_key}")
    return file
