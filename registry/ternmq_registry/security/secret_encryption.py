"""Encryption of secrets in the registry: AES-GCM under a key that is not in the registry.

Text      `v1:<id of the key>:<base64 of nonce and ciphertext>`. The user's name and the secret's time are
          authenticated with it, so that a copied text does not work for another user.
Keys      the first encrypts, all decrypt; see `ternmq_common.access.secret_keys`.
Own file  without a configured key, a stack with a data directory creates one there for its first secret. Processes of
          the stack share it: one that meets a secret of an unknown key reads the file.
Threads   safe for several; reads and writes that file, so it blocks.
"""

import base64
import binascii
import logging
import os
import secrets
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ternmq_common.access.secret_keys import generate_key, key_id, parse_keys
from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.process.private_files import create_file, narrow_modes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from ternmq_common.server_settings import UsersSettings

_log = logging.getLogger(__name__)
OWN_KEY_FILE = "secrets.key"
_VERSION = "v1"
_NONCE_BYTES = 12


class SecretEncryption:
    """Encrypts secrets, and decrypts those whose key it has."""

    def __init__(self, keys: "Sequence[bytes]" = (), *, own_file: "Path | None" = None) -> None:
        """`own_file` is for a stack without other keys; StartupError if it is there and has none either."""
        self._lock = threading.Lock()
        self._ciphers: dict[str, AESGCM] = {}
        self._own_file = own_file
        self._first = ""
        self._set_keys(keys)
        if own_file is not None:
            self._read_own(own_file)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the known keys, which do not reveal them."""
        return tuple(self._ciphers)

    def encrypt_secret(self, user: str, created_ms: int, secret: str) -> str:
        """Encrypt the secret; PRECONDITION_FAILED without any key."""
        with self._lock:
            if not self._ciphers and self._own_file is not None:
                _create_own_key(self._own_file)
                self._read_own(self._own_file)
            if not self._ciphers:
                raise MessagingError(
                    ErrorCode.PRECONDITION_FAILED,
                    "there is no key to encrypt secrets with: create one with `ternmq user generate-key`, and give the "
                    "same to all proxies, in a file (--secrets-key-file) or in the variable TERNMQ_SECRETS_KEY",
                )
            nonce = secrets.token_bytes(_NONCE_BYTES)
            encrypted = self._ciphers[self._first].encrypt(
                nonce, secret.encode(), _authenticated_data(user, created_ms)
            )
            return f"{_VERSION}:{self._first}:{base64.b64encode(nonce + encrypted).decode()}"

    def decrypt_secret(self, user: str, created_ms: int, sealed: str) -> str | None:
        """Decrypt the secret; None if its key is not here, or the text is not of this user and time."""
        from cryptography.exceptions import InvalidTag

        version, _, rest = sealed.partition(":")
        key, _, encoded = rest.partition(":")
        if version != _VERSION:
            return None
        cipher = self._cipher_of(key)
        if cipher is None:
            return None
        try:
            packed = base64.b64decode(encoded, validate=True)
            nonce, encrypted = packed[:_NONCE_BYTES], packed[_NONCE_BYTES:]
            return cipher.decrypt(nonce, encrypted, _authenticated_data(user, created_ms)).decode()
        except (binascii.Error, ValueError, InvalidTag):
            return None

    def is_current(self, sealed: str) -> bool:
        """Whether it is encrypted with the key that encrypts now."""
        return sealed.startswith(f"{_VERSION}:{self._first}:")

    def _cipher_of(self, key: str) -> "AESGCM | None":
        with self._lock:
            if key not in self._ciphers and self._own_file is not None:
                self._read_own(self._own_file)
            return self._ciphers.get(key)

    def _read_own(self, path: "Path") -> None:
        if path.exists():
            narrow_modes(path)
            self._set_keys(_read_keys(path))

    def _set_keys(self, keys: "Sequence[bytes]") -> None:
        # Takes a while to import, and a process without users does not need it.
        if not keys:
            return
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self._first = key_id(keys[0])


def secret_encryption_of(settings: "UsersSettings", data_dir: "Path | None" = None) -> SecretEncryption:
    """The encryption of the settings; without a key there the file in the data directory. StartupError. Blocks."""
    if settings.secrets_key is not None:
        return SecretEncryption(parse_keys(settings.secrets_key))
    if settings.secrets_key_file is not None:
        return SecretEncryption(_read_keys(settings.secrets_key_file))
    return SecretEncryption(own_file=None if data_dir is None else data_dir / OWN_KEY_FILE)


def _authenticated_data(user: str, created_ms: int) -> bytes:
    return f"{user}\n{created_ms}".encode()


def _read_keys(path: "Path") -> tuple[bytes, ...]:
    try:
        return parse_keys(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"the key file {path} of users' secrets can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartupError(f"the key file {path} of users' secrets is no text") from error
    except ValueError as error:
        raise StartupError(f"the key file {path} of users' secrets: {error}") from None


def _create_own_key(path: "Path") -> None:
    """Create the key file, whole or not at all, and durable before it is used; or use that of a faster process."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    try:
        with create_file(part) as file:
            file.write(
                f"# Encrypts the secrets of users in registry.db; keep a copy elsewhere.\n{generate_key()}\n".encode()
            )
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(part)
            _log.warning("created the key of users' secrets, %s: keep a copy elsewhere, no backup has it", path)
    except OSError as error:
        raise MessagingError(
            ErrorCode.INTERNAL_SERVER_ERROR,
            f"the key of users' secrets can't be written to {path}: {error.strerror}",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
