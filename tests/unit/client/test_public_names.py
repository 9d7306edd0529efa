"""The public names of the client library stay: programs of users have them. `public_names.txt` lists them.

A name that is new is added by `python -m tests.unit.client.test_public_names`; one that goes, or is renamed, breaks
programs.
"""

import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ternmq
from ternmq import blocking

NAMES = Path(__file__).with_name("public_names.txt")
BLOCKING = (
    *("Producer", "SimpleConsumer", "PushConsumer", "PullConsumer"),
    *("LiteSimpleConsumer", "LitePushConsumer", "Admin"),
)


def public_names() -> Iterator[str]:
    """Yield each exported name, each public member of an exported class, and the parameters of both."""
    exported = [(f"ternmq.{name}", getattr(ternmq, name)) for name in ternmq.__all__]
    exported += [(f"ternmq.blocking.{name}", getattr(blocking, name)) for name in BLOCKING]
    for name, value in exported:
        yield name
        if inspect.isclass(value) and value.__module__.startswith("ternmq"):
            yield from (f"{name}.{member}" for member in members_of(value))


def members_of(value: type) -> Iterator[str]:
    for name in sorted(dir(value)):
        if name.startswith("_") or hasattr(Exception, name):
            continue
        member = inspect.getattr_static(value, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        yield name + (f"({', '.join(parameters_of(member))})" if inspect.isfunction(member) else "")


def parameters_of(function: Callable[..., object]) -> Iterator[str]:
    """Yield the names of a function's parameters, and of what it takes by name besides."""
    for name, parameter in inspect.signature(function).parameters.items():
        if typing.get_origin(parameter.annotation) is typing.Unpack:
            (settings,) = typing.get_args(parameter.annotation)
            yield from settings.__annotations__
        else:
            yield name


def lost_names() -> list[str]:
    return sorted(set(NAMES.read_text().splitlines()) - set(public_names()))


def test_no_public_name_of_the_client_goes() -> None:
    assert lost_names() == [], "programs of users have these names"
    assert NAMES.read_text().splitlines() == list(public_names()), f"run python -m {__name__}"


@pytest.mark.parametrize("name", ["ternmq.ClientError.retryable", "ternmq.blocking.SimpleConsumer.receive"])
def test_the_list_reaches_into_classes(name: str) -> None:
    assert any(line.partition("(")[0] == name for line in NAMES.read_text().splitlines())


if __name__ == "__main__":
    if lost := lost_names():
        raise SystemExit(f"programs of users have these names: {', '.join(lost)}")
    NAMES.write_text("".join(f"{name}\n" for name in public_names()))
