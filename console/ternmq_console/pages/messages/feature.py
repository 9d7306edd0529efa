"""The pages of messages, by their paths."""

from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.messages.finding import finding
from ternmq_console.pages.messages.message import download, one
from ternmq_console.pages.messages.sending import send, writing
from ternmq_console.pages.messages.tail import new, tail

FEATURE = Feature(
    homes=(("/messages", "Messages"),),
    shown={
        "/messages": finding,
        "/messages/one": one,
        "/messages/one/body": download,
        "/messages/tail": tail,
        "/messages/tail/new": new,
        "/messages/send": writing,
    },
    done={"/messages/send": (send, writing)},
)
