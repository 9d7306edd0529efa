"""Certificates and keys in files: what is wrong with them is said, what changes is taken."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq_common.errors import StartupError
from ternmq_rpc.tls.contexts import create_front_contexts, member_server_context
from ternmq_rpc.tls.files import TlsFiles
from ternmq_rpc.tls.reloading import ReloadedFiles
from tests.support.certificates import Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture(autouse=True)
def _hear_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def reloading(files: TlsFiles) -> "ReloadedFiles[object]":
    return ReloadedFiles("server", files, create_front_contexts)


def test_files_that_have_not_changed_are_left_alone(certificates: Certificates) -> None:
    tls = reloading(certificates.files())
    first = tls.current
    tls.check_files()
    tls.check_files(immediately=True)
    assert tls.current is first


def test_new_files_are_taken_when_they_have_settled(certificates: Certificates) -> None:
    tls = reloading(certificates.files())
    first, first_end = tls.current, tls.expires_s
    certificates.issue("server", ends_in=timedelta(days=30))
    tls.check_files()
    assert tls.current is first  # the key may not be there yet
    tls.check_files()
    assert tls.current is not first
    assert tls.expires_s < first_end


def test_who_says_that_they_are_there_need_not_wait(certificates: Certificates) -> None:
    tls = reloading(certificates.files())
    first = tls.current
    certificates.issue("server")
    tls.check_files(immediately=True)
    assert tls.current is not first


def test_files_that_are_none_keep_the_old_ones_and_are_told_once(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    files = certificates.files()
    tls = reloading(files)
    first = tls.current
    files.cert.write_text("no certificate")
    for _ in range(5):
        tls.check_files()
    assert tls.current is first
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert "the old ones stay in use: tls_cert, tls_key:" in told[0]
    certificates.issue("server")
    for _ in range(2):
        tls.check_files()
    assert tls.current is not first


def test_a_file_that_is_gone_keeps_the_old_ones(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    files = certificates.files()
    tls = reloading(files)
    first = tls.current
    files.key.unlink()
    for _ in range(3):
        tls.check_files()
    assert tls.current is first
    assert f"tls_key: {files.key} can't be read: No such file" in caplog.text


@pytest.mark.parametrize(
    ("left", "warning"),
    [
        (timedelta(days=13, hours=1), "ends in 13 days"),
        (timedelta(days=-1), "has ended"),
        (timedelta(days=15), None),
    ],
)
def test_an_end_that_is_near_is_told(
    left: timedelta, warning: str | None, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = certificates.issue("server", ends_in=left)
    tls = reloading(TlsFiles(prefix="tls", cert=cert, key=key))
    tls.check_files()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (0 if warning is None else 1)
    assert warning is None or warning in told[0]
    assert abs(tls.left_s - left.total_seconds()) < 60


def test_a_key_that_others_may_read_is_told(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    files = certificates.files()
    files.key.chmod(0o640)  # as of a Secret of Kubernetes
    reloading(files)
    assert not caplog.records
    files.key.chmod(0o644)
    tls = reloading(files)
    tls.check_files()
    assert len(caplog.records) == 1
    assert f"every user of this machine may read {files.key} (mode 644)" in caplog.text


# --- what is wrong with files


def refusal(files: TlsFiles) -> str:
    with pytest.raises(StartupError) as refused:
        reloading(files)
    return str(refused.value)


def test_a_file_that_is_not_there_is_named(certificates: Certificates, tmp_path: Path) -> None:
    files = certificates.files()
    assert refusal(TlsFiles(prefix="tls", cert=tmp_path / "none", key=files.key)) == (
        f"tls_cert: {tmp_path / 'none'} can't be read: No such file or directory"
    )


def test_a_key_of_another_certificate_is_named(certificates: Certificates) -> None:
    files = certificates.files()
    _, other = certificates.issue("other")
    assert "other.key is not the key of the first certificate in" in refusal(
        TlsFiles(prefix="tls", cert=files.cert, key=other)
    )


def test_a_key_with_a_passphrase_is_refused_without_a_question(certificates: Certificates) -> None:
    files = certificates.files()
    files.key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
    assert "has a passphrase" in refusal(files)


def test_files_without_pem_are_refused(certificates: Certificates) -> None:
    files = certificates.files()
    files.key.write_bytes(b"\x00\x01")
    assert "no certificate and key in PEM form" in refusal(files)


def test_a_ca_without_certificates_is_refused(certificates: Certificates) -> None:
    files = certificates.files("member", verifies=True, prefix="cluster_tls")
    certificates.ca.write_text("")
    with pytest.raises(StartupError, match=r"cluster_tls_client_ca: .* has no certificates in PEM form"):
        ReloadedFiles("cluster", files, member_server_context)
