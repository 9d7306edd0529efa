"""Handles follow the registry's keys, in every proxy of a cluster."""

from pathlib import Path

import pytest

from ternmq_common.catalog.handle_keys import HandleKey
from ternmq_common.errors import MessagingError
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.handles import FORMS_MAX, HandleForms
from tests.support.handle_keys import FIRST, NEXT, made_up_handles
from tests.support.two_proxies import Cluster

HANDLE = ReceiptHandle("broker-0", 0, 1, 2, 3)
RECALL = RecallHandle("reminders", "broker-0", 1, "id")


async def test_what_one_proxy_gave_another_takes_also_around_a_rotation(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    giver, taker = await cluster.proxy(), await cluster.proxy()
    before = giver.handles.form_for("g", "t").encode_handle(HANDLE).decode()
    assert taker.handles.form_for("g", "t").decode_handle(before) == HANDLE
    cluster.registry.rotate_handle_keys()
    await giver.catalog.refresh_snapshot()
    after = giver.handles.form_for("g", "t").encode_handle(HANDLE).decode()
    assert after != before
    # It has not read the registry yet, and knows the key all the same.
    assert taker.handles.form_for("g", "t").decode_handle(after) == HANDLE
    assert RecallHandle.decode_handle(RECALL.encode_handle(giver.handles.keys), taker.handles.keys) == RECALL
    await taker.catalog.refresh_snapshot()
    assert [taker.handles.form_for("g", "t").decode_handle(each) for each in (before, after)] == [HANDLE, HANDLE]
    cluster.close()


async def test_keys_that_were_all_given_up_end_what_was_given(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    proxy = await cluster.proxy()
    text = proxy.handles.form_for("g", "t").encode_handle(HANDLE).decode()
    cluster.registry.rotate_handle_keys(all_at_once=True)
    await proxy.catalog.refresh_snapshot()
    with pytest.raises(MessagingError, match="INVALID_RECEIPT_HANDLE"):
        proxy.handles.form_for("g", "t").decode_handle(text)
    cluster.close()


def test_a_change_of_other_things_drops_nothing() -> None:
    keys: list[tuple[HandleKey, ...]] = [(FIRST, NEXT)]
    handles = HandleForms(lambda: keys[-1])
    form = handles.form_for("g", "t")
    keys.append((FIRST, HandleKey(NEXT.number, NEXT.secret, NEXT.created_ms)))
    assert handles.form_for("g", "t") is form
    keys.append((FIRST, NEXT, HandleKey(3, bytes(32), 0)))
    assert handles.form_for("g", "t") is not form


def test_not_more_forms_are_kept_than_the_limit() -> None:
    handles = made_up_handles()
    for number in range(FORMS_MAX + 10):
        handles.form_for("g", f"t{number}")
    assert len(handles._forms) == FORMS_MAX


@pytest.mark.parametrize(("group", "topic"), [("no/group", "t"), ("g", "a b")])
def test_names_that_none_has_are_refused(group: str, topic: str) -> None:
    with pytest.raises(MessagingError, match="ILLEGAL"):
        made_up_handles().form_for(group, topic)


def test_a_registry_without_keys_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(MessagingError, match="rotate-handle-key --all"):
        HandleForms(lambda: ()).form_for("g", "t")
