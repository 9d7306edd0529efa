"""The fields of messages that commands print, in order, and that `--format` may name; a body is one of the last two."""

BODIES = ("body", "body_base64")
# Of `library.message_record`.
MESSAGE_FIELDS = (
    "topic",
    "message_id",
    "broker",
    "queue",
    "offset",
    "tag",
    "keys",
    "message_group",
    "priority",
    "lite_topic",
    "properties",
    "born",
    "stored",
    "delivery",
    "attempt",
    *BODIES,
)
# Of `message.full_message_record`.
STORED_FIELDS = (
    "topic",
    "stored",
    "broker",
    "queue",
    "offset",
    "message_id",
    "tag",
    "keys",
    "body_bytes",
    "message_group",
    "priority",
    "lite_topic",
    "born",
    "born_host",
    "delivery",
    "properties",
    *BODIES,
)
# Of `dead_letters.full_letter_record`.
LETTER_FIELDS = (
    "broker",
    "offset",
    "message_id",
    "origin_topic",
    "origin_message_id",
    "attempts",
    "reason",
    "tag",
    "keys",
    "message_group",
    "priority",
    "lite_topic",
    "properties",
    "born",
    "stored",
    "delivery",
    "body_bytes",
    *BODIES,
)
