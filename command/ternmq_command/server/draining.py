"""Shows what remains on a draining broker, and waits until nothing does."""

import time
from typing import TYPE_CHECKING

from ternmq_command.terminal.output import format_count, print_json_line
from ternmq_command.terminal.poll_intervals import poll_intervals
from ternmq_command.terminal.printing import echo_lines

if TYPE_CHECKING:
    from ternmq.admin.brokers import BrokerRemaining
    from ternmq_command.calls.admin import AdminClient


def wait_until_empty(admin: "AdminClient", name: str, *, as_json: bool) -> None:
    """Wait until nothing remains, and print what does whenever it changes."""
    from ternmq.admin import brokers as broker_calls

    shown = None
    while True:
        remaining = admin.send_call(broker_calls.broker_remaining(name))
        if remaining != shown:
            show_remaining(name, remaining, as_json=as_json)
        shown = remaining
        if remaining.is_nothing:
            return
        time.sleep(poll_intervals().draining_s)


def show_remaining(name: str, remaining: "BrokerRemaining", *, as_json: bool) -> None:
    if not as_json:
        echo_lines(_remaining_text(remaining))
        return
    backlogs = [
        {"group": backlog.group, "topic": backlog.topic, "messages": backlog.messages} for backlog in remaining.backlogs
    ]
    waiting = {"timed_messages": remaining.timers, "transactions": remaining.transactions}
    print_json_line({"name": name, "draining": True, "backlogs": backlogs, **waiting})


def _remaining_text(remaining: "BrokerRemaining") -> str:
    if remaining.is_nothing:
        return "nothing remains"
    backlogs = [
        f"  {format_count(backlog.messages, 'message')} of topic {backlog.topic} for group {backlog.group}"
        for backlog in remaining.backlogs
    ]
    waiting = [
        f"  {format_count(number, thing)}"
        for number, thing in ((remaining.timers, "timed message"), (remaining.transactions, "open transaction"))
        if number
    ]
    return "\n".join(["remaining:", *backlogs, *waiting])
