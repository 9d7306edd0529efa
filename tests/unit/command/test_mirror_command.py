"""What `ternmq mirror` says of wrong options and of sources that do not answer."""

from tests.support.ports import free_address
from tests.unit.command.conftest import Call
from tests.unit.command.source_server import SourceServer


def test_a_source_that_does_not_answer_ends_it(call: Call) -> None:
    result = call("mirror", "--namesrv", free_address())
    assert result.exit_code == 3
    assert "can't reach 127.0.0.1:" in result.stderr


def test_a_target_that_does_not_answer_ends_it(call: Call) -> None:
    with SourceServer() as source:
        result = call("mirror", "--namesrv", source.address, "--remoting", free_address())
    assert result.exit_code == 3


def test_names_of_clusters_have_no_signs_of_the_property(call: Call) -> None:
    result = call("mirror", "--namesrv", "127.0.0.1:1", "--source-name", "a/b")
    assert result.exit_code == 2
    assert "a/b" in result.stderr


def test_a_broker_with_a_strange_name_is_not_believed(call: Call) -> None:
    with SourceServer() as source:
        source.answers[106] = {"brokerAddrTable": {"a/b": {"brokerAddrs": {0: source.address}}}}
        result = call("mirror", "--namesrv", source.address)
    assert (result.exit_code, "a broker with the name a/b" in result.stderr) == (3, True)


def test_nothing_to_copy_is_wrong_usage(call: Call) -> None:
    with SourceServer() as source:
        source.answers[21] = {"topicConfigTable": {"orders": {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}}}
        target = source.address  # whose topics are the same, as it is one server
        result = call("mirror", "--namesrv", source.address, "--remoting", target, "--topic", "none-*")
    assert (result.exit_code, "no topic of the source" in result.stderr) == (2, True)
