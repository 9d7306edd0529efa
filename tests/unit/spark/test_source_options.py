"""The options of a read: what is taken, and what is refused with a text that helps."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from pyspark_ternmq.options import OptionReader, WrongOption, connection_of
from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.offsets.places import ReadPlaces
from pyspark_ternmq.source.options import batch_options, stream_options, takes_filters
from ternmq import Credentials, SqlFilter, TagFilter
from tests.unit.client.authority import Authority

GIVEN = {"endpoint": "127.0.0.1:8081", "subscribe": "orders"}


def batch(**options: str) -> object:
    return batch_options({**GIVEN, **options}, SCHEMA)


def test_a_batch_reads_all_and_a_stream_what_is_new() -> None:
    options = batch_options(GIVEN, SCHEMA)
    assert (options.start, options.end) == (ReadPlaces("earliest"), ReadPlaces("latest"))
    assert options.reading.fail_on_data_loss
    assert options.reading.passing is None
    assert stream_options(GIVEN, SCHEMA).start == ReadPlaces("latest")


def test_names_of_options_have_no_case() -> None:
    options = stream_options(
        {"ENDPOINT": "127.0.0.1:8081", "Subscribe": "a, b,", "maxoffsetspertrigger": "7", "FailOnDataLoss": "FALSE"},
        SCHEMA,
    )
    assert options.subscription.topics == ("a", "b")
    assert options.max_offsets_per_trigger == 7
    assert not options.reading.fail_on_data_loss


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscrib": "orders"}, "no option 'subscrib'; did you mean 'subscribe'"),
        ({"subscribePattern": "o.*"}, "in one way"),
        ({"subscribe": " "}, "say which topics"),
        ({"subscribe": "or ders"}, "option subscribe"),
        ({"endpoint": ""}, "option endpoint is missing"),
        ({"endpoint": "127.0.0.1:none"}, "is not an address"),
        ({"startingOffsets": "latest"}, "is not earliest or JSON"),
        ({"startingOffsets": "soon"}, "is not earliest or JSON"),
        ({"endingOffsets": "earliest"}, "is not latest or JSON"),
        ({"startingOffsets": "{"}, "is no JSON"),
        ({"startingOffsets": '{"orders": 3}'}, "is not an object of queues"),
        ({"startingOffsets": '{"orders": {"b/0": -3}}'}, "-3 is no offset"),
        ({"startingOffsets": '{"orders": {"b/0": true}}'}, "True is no offset"),
        ({"startingOffsets": '{"orders": {"b/0": 1}, "@identities": 3}'}, "of @identities is not an object"),
        ({"startingOffsets": '{"orders": {"b/0": 1}, "@identities": {"orders": 3}}'}, "of @identities is not an"),
        ({"startingOffsets": '{"a":' * 100_000}, "is no JSON"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "endingTimestamp is before startingTimestamp"),
        ({"startingOffsets": "earliest", "startingTimestamp": "0"}, "exclude each other"),
        ({"startingTimestamp": "yesterday"}, "is no time"),
        ({"endingTimestamp": "2026-01-31T12:00:00"}, "has no time zone"),
        ({"tag": "a", "filter": "n > 1"}, "exclude each other"),
        ({"tag": "||"}, "option tag"),
        ({"minPartitions": "0"}, "is not a whole number of at least 1"),
        ({"maxRecordsPerPartition": "many"}, "is not a whole number"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"maxOffsetsPerTrigger": "5"}, "no option 'maxOffsetsPerTrigger'"),
        ({"accessKey": "me"}, "belong together"),
        ({"sessionToken": "once"}, "needs accessKey and secretKey"),
        ({"tlsCertificateFile": "/etc/hostname"}, "belong together"),
        ({"tlsCaFile": "/nowhere/ca.pem"}, "can't be read"),
    ],
)
def test_what_can_not_be_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(WrongOption) as refused:
        batch(**options)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "=9 is above maxOffsetsPerTrigger=8"),
        ({"maxTriggerDelay": "1m"}, "means nothing without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "'soon' is no duration: a duration like"),
        ({"group": "a b"}, "option group"),
    ],
)
def test_what_a_stream_can_not_do_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(WrongOption) as refused:
        stream_options({**GIVEN, **options}, SCHEMA)
    assert text in str(refused.value)


def test_a_stream_may_wait_for_more() -> None:
    assert stream_options(GIVEN, SCHEMA).min_offsets_per_trigger is None
    waiting = stream_options({**GIVEN, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "9"}, SCHEMA)
    assert (waiting.min_offsets_per_trigger, waiting.max_trigger_delay_ms) == (9, 15 * 60_000)
    hurried = stream_options({**GIVEN, "minOffsetsPerTrigger": "9", "maxTriggerDelay": "1m30s"}, SCHEMA)
    assert hurried.max_trigger_delay_ms == 90_000


def test_a_time_to_come_is_no_place() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text, is_passed in (("2026-01-31T12:00:00Z", True), ("2026-01-31T12:00:01Z", False)):
        start = batch_options({**GIVEN, "startingTimestamp": text}, SCHEMA).start
        if is_passed:
            start.check_passed(now)
        else:
            with pytest.raises(WrongOption, match=r"startingTimestamp=2026-01-31T12:00:01\+00:00 has not come yet"):
                start.check_passed(now)


def test_offsets_of_an_earlier_topic_are_refused() -> None:
    told = '{"orders": {"b/0": 17}, "@identities": {"orders": "a-1"}}'
    start = batch_options({**GIVEN, "startingOffsets": told}, SCHEMA).start
    assert start.each == {"orders": {"b/0": 17}}
    start.check_identities({"orders": "a-1"})
    start.check_identities({"orders": ""})
    with pytest.raises(WrongOption, match=r"an earlier one, which was deleted .* \(identity a-1, now b-2\)"):
        start.check_identities({"orders": "b-2"})


def test_a_stream_has_no_end() -> None:
    with pytest.raises(WrongOption, match="a stream has no end"):
        stream_options({**GIVEN, "endingOffsets": "latest"}, SCHEMA)


def test_filters_go_to_the_broker() -> None:
    assert batch_options({**GIVEN, "tag": "a || b"}, SCHEMA).reading.passing == TagFilter("a || b")
    assert batch_options({**GIVEN, "filter": "n > 1"}, SCHEMA).reading.passing == SqlFilter("n > 1")
    assert batch_options({**GIVEN, "tag": "*"}, SCHEMA).reading.passing is None
    assert not takes_filters(GIVEN)
    assert takes_filters({**GIVEN, "pushfilters": "true"})


@pytest.mark.parametrize("text", ["1769860800000", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00"])
def test_a_time_is_milliseconds_or_iso(text: str) -> None:
    options = batch_options({**GIVEN, "startingTimestamp": text}, SCHEMA)
    assert options.start == ReadPlaces(datetime(2026, 1, 31, 12, tzinfo=UTC), option="startingTimestamp")


def test_a_schema_takes_a_part_of_the_columns() -> None:
    schema = StructType().add("body", "binary").add("offset", "long")
    assert batch_options(GIVEN, schema).reading.columns == ("body", "offset")
    with pytest.raises(WrongOption, match=r"the schema names no column; to count rows, take one"):
        batch_options(GIVEN, StructType())
    with pytest.raises(WrongOption, match="no column 'bdy'; did you mean 'body'"):
        batch_options(GIVEN, StructType().add("bdy", "binary"))
    with pytest.raises(WrongOption, match="column body is binary, not string"):
        batch_options(GIVEN, StructType().add("body", "string"))


def test_secrets_show_in_no_text(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    chain, private_key = Authority().issued("spark")
    key.write_bytes(chain + private_key)
    options = {
        **GIVEN,
        "accessKey": "me",
        "secretKey": "hush-hush",
        "sessionToken": "just-once",
        "tlsKeyFile": str(key),
        "tlsCertificateFile": str(key),
    }
    reading = batch_options(options, SCHEMA).reading
    assert reading.connection.tls
    for secret in ("hush-hush", "just-once", "PRIVATE KEY"):
        assert secret not in repr(reading)
        with pytest.raises(WrongOption) as refused:
            batch_options({**options, "subscrib": "orders", "secretKy": secret}, SCHEMA)
        assert secret not in str(refused.value)


def test_a_certificate_of_an_authority_is_enough_for_tls(tmp_path: Path) -> None:
    ca_file = Authority().ca_file(tmp_path)
    reader = OptionReader({"endpoint": "mq:443", "tlsCaFile": str(ca_file)}, ())
    assert connection_of(reader).tls
    assert not connection_of(OptionReader({"endpoint": "mq:443"}, ())).tls


def test_keys_may_be_in_a_file_that_the_driver_reads(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('access_key = "me"\nsecret_key = "hush-hush"\n')
    given = {"endpoint": "mq:443", "credentialsFile": str(file)}
    connection = connection_of(OptionReader(given, ()))
    assert connection.credentials == Credentials("me", "hush-hush")
    assert "hush-hush" not in repr(connection)
    with pytest.raises(WrongOption, match="credentialsFile excludes accessKey"):
        connection_of(OptionReader({**given, "accessKey": "me"}, ()))
    file.write_text("hush-hush")
    with pytest.raises(WrongOption, match=r"option credentialsFile: .* is no TOML") as refused:
        connection_of(OptionReader(given, ()))
    assert "hush-hush" not in str(refused.value)


def test_a_file_that_holds_no_certificate_is_refused_on_the_driver(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(WrongOption, match="has no certificates in PEM"):
        connection_of(OptionReader({"endpoint": "mq:443", "tlsCaFile": str(tmp_path / "ca.pem")}, ()))
