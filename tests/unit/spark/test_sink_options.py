"""What a write can be told, and what is said of what it can't."""

import pickle

import pytest

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.sink.options import sink_options

ENDPOINT = {"endpoint": "127.0.0.1:8081"}


def test_defaults() -> None:
    options = sink_options(ENDPOINT)
    assert (options.topic, options.max_in_flight, options.batch_size) == (None, 4, 1000)
    assert (options.rows_per_second, options.id_seed, options.delivery_timeout_s) == (None, None, 120)


def test_all_of_them_and_their_case() -> None:
    told = {"TOPIC": "orders", "maxinflight": "2", "batchSize": "10", "idSeed": "s", "deliveryTimeoutMs": "1500"}
    options = sink_options(ENDPOINT | told)
    assert (options.topic, options.max_in_flight, options.batch_size) == ("orders", 2, 10)
    assert (options.id_seed, options.delivery_timeout_s) == ("s", 1.5)


def test_the_argument_of_save_is_the_topic() -> None:
    assert sink_options(ENDPOINT | {"path": "orders"}).topic == "orders"
    assert sink_options(ENDPOINT | {"path": "orders", "topic": "payments"}).topic == "payments"


@pytest.mark.parametrize(("rate", "size"), [("0.5", 1), ("50", 5), ("2000", 200), ("1000000", 1000)])
def test_a_paced_write_sends_small_requests(rate: str, size: int) -> None:
    assert sink_options(ENDPOINT | {"rowsPerSecond": rate}).batch_size == size


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"maxInFlight": "0"}, "maxInFlight='0'"),
        ({"batchSize": "1001"}, "batchSize=1001 is above 1000"),
        ({"rowsPerSecond": "-1"}, "rowsPerSecond"),
        ({"topic": "a b"}, "option topic='a b'"),
        ({"topics": "orders"}, "did you mean 'topic'?"),
        ({"startingOffsets": "earliest"}, "no option 'startingOffsets'"),
    ],
)
def test_wrong_options_are_named(told: dict[str, str], words: str) -> None:
    with pytest.raises(WrongOption, match=words.replace("?", r"\?")):
        sink_options(ENDPOINT | told)


def test_options_travel_and_show_no_secret() -> None:
    options = sink_options(ENDPOINT | {"accessKey": "who", "secretKey": "s3cret", "sessionToken": "t0ken"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert "s3cret" not in repr(options)
    assert "t0ken" not in repr(options)
