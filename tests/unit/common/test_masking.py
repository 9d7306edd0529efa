"""No secret is in what is shown, however it is told; what is none stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.process.masking import mask_secrets

SECRET = "s3cr3t/+x"
AUTHORIZATION = f"MQv2-HMAC-SHA1 Credential={SECRET}/a, SignedHeaders=x-mq-date-time, Signature={SECRET}"


@pytest.mark.parametrize(
    "text",
    [
        f"authorization: {AUTHORIZATION}",
        f"Decoded (b'authorization', b'{AUTHORIZATION}'), consumed 8 bytes",
        f"[('x-mq-client-id', 'c'), ('authorization', '{AUTHORIZATION}'), ('x-mq-session-token', '{SECRET}')]",
        f'{{"Authorization": "Basic {SECRET}{SECRET}", "session_token": "{SECRET}"}}',
        f"x-mq-session-token: {SECRET}",
        f"X-MQ-SESSION-TOKEN={SECRET}",
        f"Credentials(access_key='a', secret_key='{SECRET}', session_token='{SECRET}')",
        f"sent Bearer {SECRET}{SECRET} to the collector",
        f"postgresql://ternmq:{SECRET}@db.example:5432/ternmq?sslmode=require",
        f"postgresql://ternmq:p@{SECRET}:{SECRET}@db.example/ternmq",
        f"could not open 'http://:{SECRET}@collector:4317', it is away",
        f"host=db user=ternmq password={SECRET} dbname=ternmq",
        f"connection to postgresql://db/ternmq?password={SECRET}&sslmode=require failed",
        f"PGPASSWORD={SECRET}",
        f"Authorization(access_key='a', signature='{SECRET}')",
        f'"password": "it\\"s {SECRET}"',
        f"{{'headers': \"[('authorization', '{AUTHORIZATION}')]\"}}",
        f"{{'headers': \"[(\\'authorization\\', \\'{AUTHORIZATION}\\')]\"}}",
    ],
)
def test_a_secret_is_masked_however_it_is_told(text: str) -> None:
    shown = mask_secrets(text)
    assert SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "client c1@10.0.0.7:5000 is gone",
        "password authentication failed for user ternmq",
        "the registry is at postgresql://ternmq@db.example:5432/ternmq",
        "see https://example.org:8080/a?b=c",
        "the message key is k-17, the topic of keys=k-17,k-18",
        "authorization is not configured",
        "basic checks passed, 3 tokens are left",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_who_asks_where_is_still_told() -> None:
    assert mask_secrets("postgresql://ternmq:secret@db:5432/t is away") == "postgresql://ternmq:***@db:5432/t is away"
    assert mask_secrets("h=1 password=secret dbname=t") == "h=1 password=*** dbname=t"
    assert (
        mask_secrets("Decoded (b'x-mq-session-token', b'abc'), 8 bytes")
        == "Decoded (b'x-mq-session-token', ***), 8 bytes"
    )


PUNCTUATION = st.text(st.sampled_from("ab@:/'\"\\=, \n-&"), max_size=60)


@given(PUNCTUATION, st.sampled_from(["password=", "x-mq-session-token: ", "http://user:"]), PUNCTUATION)
def test_a_secret_is_masked_whatever_stands_around_it(before: str, name: str, after: str) -> None:
    assert SECRET not in mask_secrets(f"{before} {name}{SECRET}@h {after}")


@pytest.mark.parametrize(
    "piece", ["://a:", "password='", 'authorization="', "'\\", "a-", "secret", "Bearer ", "password   ", "@://"]
)
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    """Someone may have a part in what is logged: it must not hold up the event loop."""

    def cost_s(length: int) -> float:
        text = "@" + piece * (length // len(piece)) + "://authorization token"
        best_s = float("inf")
        for _ in range(5):
            began = time.process_time()
            mask_secrets(text)
            best_s = min(best_s, time.process_time() - began)
        return best_s

    # A quadratic way would take 256 times as long.
    assert cost_s(64_000) < 100 * max(cost_s(4_000), 1e-4)
