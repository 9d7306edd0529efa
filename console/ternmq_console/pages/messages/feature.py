"""The pages of messages, by their paths."""

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.messages.finding import show_messages
from ternmq_console.pages.messages.message import download_body, show_message
from ternmq_console.pages.messages.sending import send_message, show_send_form
from ternmq_console.pages.messages.tail import show_new, show_tail

FEATURE = PageFeature(
    homes=(("/messages", "Messages"),),
    shown={
        "/messages": show_messages,
        "/messages/one": show_message,
        "/messages/one/body": download_body,
        "/messages/tail": show_tail,
        "/messages/tail/new": show_new,
        "/messages/send": show_send_form,
    },
    done={"/messages/send": (send_message, show_send_form)},
)
