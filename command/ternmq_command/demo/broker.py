"""The broker's process: `ternmq up` with its arguments, which ends when its standard input ends.

The demo has the other end. So a demo that is killed leaves no broker behind that would keep the data locked.
"""

import os
import signal
import sys
import threading

from ternmq_command.main import cli


def stop_without_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=stop_without_parent, daemon=True).start()
    cli.main(["up", *sys.argv[1:]])
