"""Secrets at rest: only the key opens them, only for the user and time that they were sealed for."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.secret_keys import KEYS_MAX, generate_key, parse_keys
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.resources.setting import InvalidSetting, differing_settings, settings_of
from ternmq_common.server_settings import ServerSettings
from ternmq_common.settings import SettingsError, load_settings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.security.secret_encryption import OWN_KEY_FILE, SecretEncryption, secret_encryption_of

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
NAMES = st.text("abcABC019_.@-", min_size=1, max_size=64)
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=256)


@given(user=NAMES, created_ms=st.integers(0, 2**53), secret=SECRETS)
def test_what_is_sealed_opens_again_and_is_not_in_the_text(user: str, created_ms: int, secret: str) -> None:
    secret_encryption = SecretEncryption([NEW, OLD])
    sealed = secret_encryption.encrypt_secret(user, created_ms, secret)
    assert secret not in sealed
    assert secret_encryption.decrypt_secret(user, created_ms, sealed) == secret
    assert secret_encryption.decrypt_secret(f"{user}x", created_ms, sealed) is None
    assert secret_encryption.decrypt_secret(user, created_ms + 1, sealed) is None
    assert SecretEncryption([OLD]).decrypt_secret(user, created_ms, sealed) is None


@given(data=st.data(), secret=SECRETS)
def test_a_text_that_was_changed_opens_nothing(data: st.DataObject, secret: str) -> None:
    secret_encryption = SecretEncryption([OLD])
    sealed = secret_encryption.encrypt_secret("alice", 7, secret)
    place = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda each: each != sealed[place]))
    changed = sealed[:place] + other + sealed[place + 1 :]
    # Two letters at the end of base64 may stand for the same bytes.
    assert secret_encryption.decrypt_secret("alice", 7, changed) in (None, secret)
    assert secret_encryption.decrypt_secret("alice", 7, sealed[:place]) is None


def test_the_same_secret_is_never_sealed_twice_alike() -> None:
    secret_encryption = SecretEncryption([OLD])
    assert len({secret_encryption.encrypt_secret("alice", 7, "correct-horse") for _ in range(100)}) == 100


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    sealed = SecretEncryption([OLD]).encrypt_secret("alice", 7, "correct-horse")
    both = SecretEncryption([NEW, OLD])
    assert both.decrypt_secret("alice", 7, sealed) == "correct-horse"
    assert not both.is_current(sealed)
    anew = both.encrypt_secret("alice", 7, "correct-horse")
    assert both.is_current(anew)
    assert SecretEncryption([NEW]).decrypt_secret("alice", 7, anew) == "correct-horse"


def test_without_a_key_nothing_is_sealed_and_the_error_says_how_to_make_one() -> None:
    with pytest.raises(MessagingError, match="`ternmq user generate-key`") as refused:
        SecretEncryption().encrypt_secret("alice", 7, "correct-horse")
    assert refused.value.code == pb.PRECONDITION_FAILED


def test_a_stack_makes_a_private_key_file_for_its_first_secret_and_shares_it(tmp_path: Path) -> None:
    path = tmp_path / OWN_KEY_FILE
    first, second = SecretEncryption(own_file=path), SecretEncryption(own_file=path)
    assert not path.exists()
    sealed = first.encrypt_secret("alice", 7, "correct-horse")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [OWN_KEY_FILE]
    assert second.decrypt_secret("alice", 7, sealed) == "correct-horse"
    assert (
        SecretEncryption(own_file=path).decrypt_secret("alice", 7, second.encrypt_secret("bob", 8, "battery-staple"))
        is None
    )
    assert (
        SecretEncryption(own_file=path).decrypt_secret("bob", 8, second.encrypt_secret("bob", 8, "battery-staple"))
        == "battery-staple"
    )


@pytest.mark.parametrize("text", ["", "short", "00" * 31, "!" * 44, "00" * 33, "\n".join(["00" * 32] * (KEYS_MAX + 1))])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(f"# ours\n{text}\n")
    with pytest.raises(StartupError, match="ternmq user generate-key") as refused:
        secret_encryption_of(ServerSettings(secrets_key_file=path))
    assert not text or text not in str(refused.value)


def test_keys_are_read_of_lines_and_commas_in_both_forms() -> None:
    key = generate_key()
    assert parse_keys(f"# new\n{key} # its end\n\n{OLD.hex()},{NEW.hex().upper()}\n") == (
        *parse_keys(key),
        OLD,
        NEW,
    )


def test_a_key_file_that_is_missing_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="can't be read: No such file"):
        secret_encryption_of(ServerSettings(secrets_key_file=tmp_path / "nowhere"))


def test_secrets_of_the_settings_are_shown_nowhere() -> None:
    key, secret = OLD.hex(), "correct-horse-battery"
    environ = {"TERNMQ_SECRETS_KEY": key, "TERNMQ_INIT_SECRET": secret}
    settings = load_settings(ServerSettings, file=None, environ=environ, flags={}).settings
    assert (settings.secrets_key, settings.init_secret) == (key, secret)
    described = settings_of(ServerSettings)
    assert {described[name].render(getattr(settings, name)) for name in ("secrets_key", "init_secret")} == {"***"}
    for shown in (repr(settings), str(differing_settings(settings))):
        assert key not in shown
        assert secret not in shown
    for name in ("SECRETS_KEY", "INIT_SECRET"):
        with pytest.raises(SettingsError) as refused:
            load_settings(ServerSettings, file=None, environ={f"TERNMQ_{name}": "hunter two"}, flags={})
        assert "hunter" not in str(refused.value)


def test_one_key_is_given_in_one_way(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="one of both is needed"):
        ServerSettings(secrets_key=OLD.hex(), secrets_key_file=tmp_path / "key")
    with pytest.raises(InvalidSetting, match="one of both is needed"):
        ServerSettings(init_secret="correct-horse-battery", init_secret_file=tmp_path / "secret")
