"""Messages as JSON: what is told is taken again, whatever a message holds."""

import base64
import json
import math
from typing import Any, cast

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ternmq_console.api.json_form import BadJson, from_json, is_map, is_text, text_to_json, to_json
from ternmq_console.calls import CALLS
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

# Messages and descriptors are of types that the library makes at run time.
Message = Any
KINDS = sorted({kind for call in CALLS.values() for kind in call}, key=lambda kind: kind.DESCRIPTOR.full_name)
_SAFE = 1 << 53
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_SCALARS = {
    FieldDescriptor.TYPE_STRING: _TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-_SAFE, _SAFE),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
}


def one(field: FieldDescriptor, data: st.DataObject) -> Any:  # noqa: ANN401
    """A value of a field that is neither a message, a list nor a map."""
    if field.enum_type is not None:
        return data.draw(st.sampled_from([value.number for value in field.enum_type.values]))
    return data.draw(_SCALARS[field.type])


def fill(message: Message, data: st.DataObject, depth: int = 3) -> None:
    """Set some of the fields; of a oneof not more than one."""
    for field in message.DESCRIPTOR.fields:
        is_taken = field.containing_oneof is not None and message.WhichOneof(field.containing_oneof.name)
        if not is_taken and data.draw(st.booleans()):
            fill_field(message, field, data, depth)


def fill_field(message: Message, field: FieldDescriptor, data: st.DataObject, depth: int) -> None:
    value = getattr(message, field.name)
    if is_map(field):
        assert field.message_type is not None
        for key in data.draw(st.lists(_TEXTS, max_size=2)):
            value[key] = one(field.message_type.fields_by_name["value"], data)
    elif field.message_type is not None and field.is_repeated:
        for _ in range(data.draw(st.integers(0, 2))):
            fill_message(value.add(), field, data, depth)
    elif field.message_type is not None:
        value.SetInParent()
        fill_message(value, field, data, depth)
    elif field.is_repeated:
        value.extend(one(field, data) for _ in range(data.draw(st.integers(0, 2))))
    else:
        setattr(message, field.name, one(field, data))


def fill_message(target: Message, field: FieldDescriptor, data: st.DataObject, depth: int) -> None:
    if is_text(field):
        target.FromMilliseconds(data.draw(st.integers(-(10**12), 10**13)))
    elif depth:
        fill(target, data, depth - 1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.DESCRIPTOR.name)
@settings(max_examples=15)
@given(data=st.data())
def test_what_is_told_is_taken_again(kind: Message, data: st.DataObject) -> None:
    message = kind()
    fill(message, data)
    told = msgspec.json.encode(to_json(message))
    again = kind()
    from_json(json.loads(told), again)
    assert again == message


def test_numbers_are_numbers_and_what_is_not_set_is_absent() -> None:
    told = to_json(admin_pb2.QueueState(broker="a", max_offset=1 << 40))
    assert told == {"broker": "a", "queue_id": 0, "min_offset": 0, "max_offset": 1 << 40}
    assert "lite" not in to_json(admin_pb2.Group(name="a"))
    assert to_json(admin_pb2.Group(name="a", priority_factor=0))["priority_factor"] == 0
    unknown = pb.Status.FromString(b"\x08\x63")
    assert to_json(unknown) == {"code": 99, "message": ""}


@pytest.mark.parametrize(
    "said",
    [
        [],
        None,
        "text",
        {"nope": 1},
        {"queues": "x"},
        {"queues": 1 << 31},
        {"queues": 1.5},
        {"queues": math.inf},
        {"name": 5},
        {"name": "\ud800"},
        {"created": "yesterday"},
        {"retention": "1 day"},
        {"brokers": "a"},
        {"brokers": {"a": 1}},
    ],
)
def test_what_a_topic_can_not_have_is_refused(said: Any) -> None:  # noqa: ANN401
    with pytest.raises(BadJson):
        from_json(said, admin_pb2.Topic())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.text() | st.sampled_from(["topic", "name", "queues", "created"]), inner)
        ),
    )
)
def test_json_of_any_shape_is_taken_or_refused(said: Any) -> None:  # noqa: ANN401
    try:
        from_json(said, admin_pb2.CreateTopicRequest())
    except BadJson:
        return
    assert isinstance(said, dict)


@given(text=st.binary(max_size=9).map(lambda body: base64.b64encode(body).decode()) | st.text(max_size=9))
@example("hello, world")
@example("aGVsbG8==")
@example("aGVs\n")
@example("a-_8")
def test_bytes_are_base64_whole_or_are_refused(text: str) -> None:
    """In either alphabet; the padding may be absent, and nothing else is skipped."""
    unpadded = text[: len(text.rstrip("="))].translate(str.maketrans("-_", "+/"))
    try:
        expected = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except ValueError:  # also for characters that are not ASCII
        expected = None
    padding = len(text) - len(unpadded)
    if padding and (padding > 2 or len(text) % 4):
        expected = None
    request = CALLS["AdminSendMessage"].request()
    try:
        from_json({"body": text}, request)
    except BadJson:
        assert expected is None
    else:
        assert request.body == expected


def test_a_query_says_true_and_false_in_one_way() -> None:
    force = cast("FieldDescriptor", admin_pb2.RemoveBrokerRequest.DESCRIPTOR.fields_by_name["force"])
    assert [text_to_json(force, [text]) for text in ("true", "false")] == [True, False]
    for texts in (["True"], ["1"], [""], ["true", "true"]):
        with pytest.raises(BadJson):
            text_to_json(force, texts)
