"""Bodies in JSON: values, dataclasses and pydantic models, there and back, and what is refused."""

import datetime as dt
import enum
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest

import ternmq
from ternmq import Message, MessageView
from ternmq.connections.endpoints import Endpoints
from ternmq_protos.v2 import definition_pb2 as pb

AT = dt.datetime(2026, 11, 22, 23, 0, tzinfo=dt.UTC)


class Color(enum.Enum):
    RED = "red"


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass(frozen=True)
class Order:
    number: int
    price: float
    lines: list[Line] = field(default_factory=list)
    first: Line | None = None
    note: str | int | None = None
    state: Literal["open", "paid"] = "open"
    color: Color = Color.RED
    at: dt.datetime | None = None
    day: dt.date | None = None
    id: UUID | None = None
    total: Decimal | None = None
    pair: tuple[int, str] = (0, "")
    more: tuple[int, ...] = ()
    tags: frozenset[str] = frozenset()
    by_name: Mapping[str, Line] = field(default_factory=dict)
    anything: Any = None
    items: Sequence[int] = ()


@dataclass
class Tree:
    left: "Tree | None" = None
    right: "Tree | None" = None


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


@dataclass
class Owner:
    pet: Cat | Dog


@dataclass
class Odd:
    what: bytes


class Customer(pydantic.BaseModel):
    name: str
    born: dt.date | None = None
    age: int = pydantic.Field(default=0, ge=0)


FULL = Order(
    number=17,
    price=2.5,
    lines=[Line("täa"), Line("b", 3)],
    first=Line("c"),
    note="n",
    state="paid",
    at=AT,
    day=AT.date(),
    id=UUID(int=7),
    total=Decimal("12.50"),
    pair=(1, "x"),
    more=(1, 2, 3),
    tags=frozenset({"t"}),
    by_name={"l": Line("d")},
    anything={"a": [None, True, 1.5]},
    items=[1, 2],
)


def view_of(body: bytes, message_id: str = "id-1") -> MessageView:
    message = pb.Message(body=body, system_properties=pb.SystemProperties(message_id=message_id))
    return MessageView(message, broker="b", endpoints=Endpoints.parse("127.0.0.1"))


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "ä\n", [], [1, "a"], {"a": {"b": [None]}}])
def test_values_come_back(value: object) -> None:
    assert view_of(Message.json("orders", value).body).json() == value


def test_a_body_is_utf_8_without_white_space_and_the_rest_is_the_messages() -> None:
    message = Message.json("orders", {"a": "ä", "b": [1, 2]}, keys=["k"], tag="t", delay=dt.timedelta(seconds=5))
    assert message.body == '{"a":"ä","b":[1,2]}'.encode()
    assert (message.topic, message.keys, message.tag, message.message_type) == ("orders", ("k",), "t", pb.DELAY)


def test_dataclasses_come_back_with_what_is_in_them() -> None:
    assert view_of(Message.json("orders", FULL).body).json(Order) == FULL
    assert view_of(b'{"number": 1, "price": 2}').json(Order) == Order(1, 2.0)


def test_models_of_pydantic_come_back_also_within_other_values() -> None:
    customer = Customer(name="Ada", born=dt.date(1815, 12, 10))
    assert view_of(Message.json("customers", customer).body).json(Customer) == customer
    assert Message.json("customers", [customer]).body == b'[{"name":"Ada","born":"1815-12-10","age":0}]'


def test_what_a_dataclass_does_not_know_is_left_out() -> None:
    assert view_of(b'{"item": "a", "since": "version 2"}').json(Line) == Line("a")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "is no JSON: Expecting property name"),
        (b"\xff\xfe\xfa", "is no JSON: "),
        (b"[NaN]", "is no JSON: NaN is no JSON"),
        (b"-Infinity", "is no JSON: -Infinity is no JSON"),
        (b"[" * 200_000, "is no JSON: it is nested too deeply"),
        (b"1" * 5000, "is no JSON: "),
    ],
)
def test_a_body_that_is_no_json_is_an_error_that_names_the_message(body: bytes, said: str) -> None:
    with pytest.raises(ternmq.UndecodableBody, match=re.escape(f"the body of id-1 {said}")) as failed:
        view_of(body).json()
    assert (failed.value.message_id, failed.value.code) == ("id-1", pb.MESSAGE_CORRUPTED)
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("[]", "body is no Order"),
        ('{"price": 1}', "number is missing"),
        ('{"number": "1", "price": 1}', "number is no int"),
        ('{"number": true, "price": 1}', "number is no int"),
        ('{"number": 1.0, "price": 1}', "number is no int"),
        ('{"number": 1, "price": 1' + "0" * 400 + "}", "price is no float"),
        ('{"number": 1, "price": 1, "lines": {}}', "lines is no list"),
        ('{"number": 1, "price": 1, "lines": [{"item": "a"}, {"item": 5}]}', "lines[1].item is no str"),
        ('{"number": 1, "price": 1, "first": {}}', "first.item is missing"),
        ('{"number": 1, "price": 1, "first": 5}', "first is no Line or NoneType"),
        ('{"number": 1, "price": 1, "note": []}', "note is no str or int or NoneType"),
        ('{"number": 1, "price": 1, "state": "lost"}', "state is no "),
        ('{"number": 1, "price": 1, "color": "blue"}', "color is no Color"),
        ('{"number": 1, "price": 1, "color": []}', "color is no Color"),
        ('{"number": 1, "price": 1, "at": "noon"}', "at is no datetime"),
        ('{"number": 1, "price": 1, "total": "much"}', "total is no Decimal"),
        ('{"number": 1, "price": 1, "id": 7}', "id is no UUID"),
        ('{"number": 1, "price": 1, "pair": [1]}', "pair has 1 items instead of 2"),
        ('{"number": 1, "price": 1, "pair": [1, 2]}', "pair[1] is no str"),
        ('{"number": 1, "price": 1, "by_name": {"x": {}}}', "by_name.'x'.item is missing"),
    ],
)
def test_what_does_not_fit_a_dataclass_is_said_with_its_place(fields: str, said: str) -> None:
    with pytest.raises(ternmq.UndecodableBody, match=re.escape("the body of id-1 is no Order in JSON: ")) as failed:
        view_of(fields.encode()).json(Order)
    assert said in failed.value.message


def test_what_does_not_fit_a_model_is_said_without_its_values() -> None:
    with pytest.raises(ternmq.UndecodableBody) as failed:
        view_of(b'{"name": ["secret"], "age": -5}').json(Customer)
    said = "the body of id-1 is no Customer in JSON: name: Input should be a valid string; age: Input should be"
    assert failed.value.message.startswith(said)
    assert "secret" not in failed.value.message
    assert isinstance(failed.value.__cause__, ValueError)


def test_an_error_shows_control_characters_and_ends() -> None:
    body = '{"number": 1, "price": 1, "by_name": {"\\u001b[31m' + "x" * 5000 + '": {}}}'
    with pytest.raises(ternmq.UndecodableBody) as failed:
        view_of(body.encode(), message_id="id\x1b[2J").json(Order)
    assert failed.value.message.isprintable()
    assert failed.value.message_id == "id\x1b[2J"
    assert len(failed.value.message) < 700


def test_a_body_that_is_nested_for_ever_ends_in_an_error() -> None:
    deep = b'{"left":' * 5000 + b"5" + b"}" * 5000
    with pytest.raises(ternmq.UndecodableBody):
        view_of(deep).json(Tree)
    assert view_of(b'{"left": {"right": {}}}').json(Tree) == Tree(Tree(None, Tree()))


def test_a_broken_gzip_body_names_its_message_too() -> None:
    view = view_of(b"no gzip")
    view.to_proto().system_properties.body_encoding = pb.GZIP
    with pytest.raises(ternmq.UndecodableBody, match="the body of id-1 says gzip and can't be read"):
        view.json()


@pytest.mark.parametrize("model", [int, dict, list[int], FULL, "Order"])
def test_a_model_is_a_dataclass_or_one_of_pydantic(model: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=re.escape(f"json() makes dataclasses and pydantic models, which {model!r}")):
        view_of(b"{}").json(model)


def test_types_that_json_can_not_be_read_into_are_mistakes_of_the_program() -> None:
    with pytest.raises(TypeError, match="what of type <class 'bytes'> can't be read from JSON"):
        view_of(b'{"what": "x"}').json(Odd)
    with pytest.raises(TypeError, match="pet: it is ambiguous which of Cat, Dog a JSON value is"):
        view_of(b'{"pet": {"name": "x"}}').json(Owner)


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (float("nan"), ValueError, "not JSON compliant"),
        ({"a": b"x"}, TypeError, "JSON has no form for a bytes: b'x'"),
        (Order, TypeError, "JSON has no form for a type"),
    ],
)
def test_a_value_that_json_does_not_have_is_refused(value: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Message.json("orders", value)


def test_pydantic_is_imported_by_nobody_who_does_not_use_it() -> None:
    program = """
import sys
from dataclasses import dataclass
import ternmq, ternmq.blocking, ternmq.messages.json_body
@dataclass
class Line:
    item: str
body = ternmq.Message.json("orders", Line("a")).body
assert ternmq.messages.json_body.decode_body(body, Line) == Line("a")
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
