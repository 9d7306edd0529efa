"""A worker process that reads plain records of stretches of the log: `python -m
ternmq_broker.store.replaying.stretch_worker`.

It reads requests from its standard input and answers on its standard output, both pickled, until its input ends, as it
does when its parent process has died.
"""

import pickle
import sys

from ternmq_broker.store.replaying.stretch_reader import read_stretch


def main() -> None:
    while True:
        try:
            wanted = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
        except EOFError:
            return
        pickle.dump(read_stretch(wanted), sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
