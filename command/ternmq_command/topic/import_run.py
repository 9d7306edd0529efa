"""One call of `ternmq topic import`: finds the messages of a file that are already stored, and sends the others.

Batches  consist of the same lines in every call: BATCH_MESSAGES lines or BATCH_BYTES bytes from the first line on. A
         batch is sent when all of the one before is stored.
Stored   Therefore a whole batch is stored if anything behind it is, and it is enough to query the first message of each
         batch. The last batch whose first message is stored, and the one behind it, may be stored in part: each of
         their messages is queried.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from ternmq.blocking import Producer
from ternmq.errors import ClientError, SendManyError
from ternmq.messages.message import Message, SendReceipt
from ternmq_command.calls.access import current_access
from ternmq_command.calls.admin import AdminClient
from ternmq_command.message.message_lines import BATCH_BYTES, BATCH_MESSAGES, BadLine, numbered_pages, parse_line
from ternmq_command.message.topic_types import accepts_timed_messages
from ternmq_command.terminal.failures import CallRefused
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from datetime import datetime

    from ternmq_command.message.message_lines import ReadableFile
    from ternmq_command.terminal.progress_line import ProgressLine

_ID_BYTES = 16


@dataclass(slots=True)
class ImportCounts:
    """Counts of the messages so far: those `sent`, and those `found` because an earlier call had stored them."""

    sent: int = 0
    found: int = 0


class MessageLine(NamedTuple):
    """A message of the file, and its id, a hash of topic, line number and line."""

    message_id: str
    message: Message


class ImportRun:
    """Imports into one topic; `again` sends every message without looking for stored ones."""

    def __init__(self, endpoint: str, topic: str, *, again: bool) -> None:
        self._topic = topic
        self._is_timed = accepts_timed_messages(endpoint, topic)
        self._stack = contextlib.ExitStack()
        self._admin = None if again else self._stack.enter_context(AdminClient(endpoint))
        self._producer = self._stack.enter_context(
            Producer(endpoint, topics=[topic], **current_access().client_options())
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def import_messages(self, source: "ReadableFile", imported: ImportCounts, progress: "ProgressLine") -> None:
        """Send the messages that are not stored.

        Raises BadLine after sending the messages before an invalid line; ClientError and Refused.
        """
        looks, before, bad = self._admin is not None, list[MessageLine](), None
        try:
            for batch in self._read_batches(source):
                if looks and self._is_stored(batch[0]):
                    imported.found += len(before)  # as something behind it is stored
                    before = batch
                    continue
                missing = [line for line in (*before, *batch) if not (looks and self._is_stored(line))]
                imported.found += len(before) + len(batch) - len(missing)
                looks, before = False, []
                self._send_missing(missing, imported, progress)
        except BadLine as error:
            bad = error
        missing = [line for line in before if not self._is_stored(line)]
        imported.found += len(before) - len(missing)
        self._send_missing(missing, imported, progress)
        if bad is not None:
            bad.sent = imported.sent + imported.found
            raise bad

    def _read_batches(self, source: "ReadableFile") -> Iterator[list[MessageLine]]:
        """Yield the batches; raises BadLine after the batch that ends before an invalid line."""
        batch, batch_bytes = list[MessageLine](), 0
        bad = None
        try:
            for line in self._read_lines(source):
                if batch and (len(batch) == BATCH_MESSAGES or batch_bytes + len(line.message.body) > BATCH_BYTES):
                    yield batch
                    batch, batch_bytes = [], 0
                batch.append(line)
                batch_bytes += len(line.message.body)
        except BadLine as error:
            bad = error
        if batch:
            yield batch
        if bad is not None:
            raise bad

    def _read_lines(self, source: "ReadableFile") -> Iterator[MessageLine]:
        for page in numbered_pages(source):
            for number, line in page:
                if line.strip():
                    yield self._parse_message_line(number, line)

    def _parse_message_line(self, number: int, line: bytes) -> MessageLine:
        place = b"%b\n%d\n%b" % (self._topic.encode(), number, line)
        try:
            return MessageLine(
                hashlib.blake2b(place, digest_size=_ID_BYTES).hexdigest().upper(), self._build_message(line)
            )
        except ClientError as error:
            raise BadLine(number, error.message) from None
        except ValueError as error:
            raise BadLine(number, str(error)) from None

    def _build_message(self, line: bytes) -> Message:
        content = parse_line(line)
        delivery: datetime | int | None = None
        if self._is_timed:
            delivery = 0 if content.delivery is None else content.delivery  # without a time it is due now
        return Message(
            self._topic,
            content.body,
            tag=content.tag,
            keys=content.keys,
            properties=content.properties,
            message_group=content.message_group,
            delivery_timestamp=delivery,
            priority=content.priority,
            lite_topic=content.lite_topic,
        )

    def _is_stored(self, line: MessageLine) -> bool:
        from ternmq.admin import messages as message_calls

        assert self._admin is not None
        try:
            return bool(self._admin.send_call(message_calls.find_messages(self._topic, line.message_id, limit=1)))
        except CallRefused as refusal:
            if refusal.code != pb.TOPIC_NOT_FOUND:
                raise
            return False  # the first message creates it

    def _send_missing(self, lines: Sequence[MessageLine], imported: ImportCounts, progress: "ProgressLine") -> None:
        """Send messages in batches, each when the one before is stored."""
        while lines:
            batch, lines = lines[:BATCH_MESSAGES], lines[BATCH_MESSAGES:]
            count = 0
            try:
                ids = [line.message_id for line in batch] if self._admin is not None else None
                count = len(self._producer.send_many([line.message for line in batch], message_ids=ids))
            except SendManyError as error:
                count = sum(isinstance(outcome, SendReceipt) for outcome in error.outcomes)
                raise
            finally:
                imported.sent += count
                progress.add_messages(count)
