"""What pytest gets from `ternmq.testing`: in a pytest of its own, as a user runs it."""

from pathlib import Path

import pytest

import ternmq.testing

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)

OPTIONS = ("-p", "no:randomly", "-p", "no:cacheprovider")


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*OPTIONS, *options)


def test_each_test_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from datetime import timedelta
        import pytest

        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_apart(ternmq_server, number):
            assert ternmq_server.endpoint not in [endpoint for endpoint, _ in seen]
            assert ternmq_server.create_topic("orders", queues=number) == "orders"
            seen.append((ternmq_server.endpoint, ternmq_server.settings.data_dir))

        def test_gone():
            assert len(seen) == 2
            assert not any(data_dir.exists() for _, data_dir in seen)
        """,
    )
    result.assert_outcomes(passed=3)


def test_a_marker_gives_settings(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        pytestmark = pytest.mark.ternmq(default_queues=3, retention_ms="2d")

        def test_of_the_module(ternmq_server):
            assert (ternmq_server.settings.default_queues, ternmq_server.settings.retention_ms) == (3, 2 * 86_400_000)

        @pytest.mark.ternmq(default_queues=5)
        def test_of_its_own(ternmq_server):
            assert (ternmq_server.settings.default_queues, ternmq_server.settings.retention_ms) == (5, 2 * 86_400_000)
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_marker_that_is_wrong_says_so(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.ternmq("2d")
        def test_without_a_name(ternmq_server): ...

        @pytest.mark.ternmq(retenton_ms="2d")
        def test_of_another_name(ternmq_server): ...
        """,
    )
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*takes settings by name*", "*unknown setting 'retenton_ms'; did you mean*"])


def test_the_whole_run_can_share_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest, ternmq

        endpoints = set()

        @pytest.mark.parametrize("number", range(3))
        def test_shares(ternmq_session, number):
            endpoints.add(ternmq_session.endpoint)
            ternmq_session.create_topic(ternmq_session.fresh_name())
            with pytest.raises(ternmq.Forbidden):
                ternmq_session.advance(1)

        def test_it_was_one():
            assert len(endpoints) == 1
        """,
    )
    result.assert_outcomes(passed=4)


def test_the_fixture_does_not_hide_the_module_and_its_old_name_says_the_new_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import ternmq

        def test_both(ternmq_server):
            assert ternmq_server.create_topic("orders")
            assert ternmq.Message("orders", b"x").body == b"x"

        def test_as_before(ternmq): ...
        """,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*fixture 'ternmq' is called 'ternmq_server'*"])


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_coroutines_have_it_too(pytester: pytest.Pytester, mode: str) -> None:
    result = run(
        pytester,
        """
        import pytest
        from ternmq import Message, Producer

        @pytest.mark.asyncio
        async def test_sends(ternmq_server):
            async with Producer(ternmq_server.endpoint, topics=["orders"]) as producer:
                assert (await producer.send(Message("orders", b"shoes"))).message_id
        """,
        "--asyncio-mode",
        mode,
    )
    result.assert_outcomes(passed=1)


def test_nothing_of_the_server_is_imported_for_tests_that_do_not_ask(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import sys

        def test_without():
            assert not {"ternmq_proxy", "ternmq_broker", "sqlalchemy", "testcontainers"} & sys.modules.keys()
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_run_without_the_servers_packages_fails_only_where_they_are_needed(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import sys

        sys.modules["sqlalchemy"] = None

        def test_without(): ...

        def test_with(ternmq_server): ...
        """,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*in a checkout of TernMQ, run pip install '.[[]testing]'*"])


def test_the_marker_and_the_fixtures_are_listed(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.ternmq(*"])
    pytester.runpytest_subprocess("--fixtures").stdout.fnmatch_lines_random(["ternmq_session *", "ternmq_server -- *"])


def test_the_readme_has_the_example_as_it_is() -> None:
    example = Path(__file__).with_name("test_example.py").read_text()
    assert f"```python\n{example}```\n" in Path(ternmq.testing.__file__).with_name("README.md").read_text()
