"""A relay as a process of its own: `python -m tests.support.outbox_relay DATABASE ENDPOINT REQUESTS`.

It kills itself after so many SendMessage requests were answered, before it can write that down; 0 is never.
"""

import os
import signal
import sys

from sqlalchemy import MetaData, create_engine

from ternmq import Hooks
from ternmq.outbox import Outbox, OutboxRelay


class Killer(Hooks):
    """Dies when the answer has come and before anything is made of it."""

    def __init__(self, requests: int) -> None:
        self._left = requests

    def send_finished(self, *_: object) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(database: str, endpoint: str, requests: str) -> None:
    outbox = Outbox(MetaData())
    engine = create_engine(database)
    OutboxRelay(
        outbox, engine, endpoint, batch_rows=10, poll_interval=0.05, hooks=[Killer(int(requests))]
    ).run_blocking()


if __name__ == "__main__":
    main(*sys.argv[1:])
