"""Tries an installed TernMQ: a server in this process accepts and delivers messages, in the expected form.

Run by `tools/wheels` with a Python that has nothing else: `python try_wheel.py compiled|plain`.
"""

import platform
import sys

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing import Stack
from ternmq_rpc.build_form import is_compiled

COUNT = 20
# An emulated machine is slow.
PATIENCE_S = 60.0


def main() -> int:
    form = "compiled" if is_compiled() else "plain"
    if form != sys.argv[1]:
        print(f"this installation is {form}, and should be {sys.argv[1]}")
        return 1
    received: set[bytes] = set()
    with Stack() as stack:
        with Producer(stack.endpoint, topics=["orders"], request_timeout=PATIENCE_S) as producer:
            producer.send_many([Message("orders", b"%d" % number) for number in range(COUNT)])
        with SimpleConsumer(stack.endpoint, "billing", {"orders": "*"}, request_timeout=PATIENCE_S) as consumer:
            while len(received) < COUNT:
                views = consumer.receive()
                received |= {view.body for view in views}
                consumer.ack(views)
    print(f"{form} on {platform.machine()}, Python {platform.python_version()}: {len(received)} messages came")
    return 0


if __name__ == "__main__":
    sys.exit(main())
