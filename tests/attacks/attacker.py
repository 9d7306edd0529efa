"""The attacker's process: `python -m tests.attacks.attacker NAME GRPC HTTP REMOTING SECONDS`. Prints facts as JSON.

It gives way to the others of this machine, for what it takes from the healthy client the server can't be blamed for.
"""

import json
import os
import sys

from tests.attacks.catalog import ATTACKS
from tests.attacks.target import Target

_NICE = 5


def main() -> None:
    name, grpc, http, remoting, seconds = sys.argv[1:]
    os.nice(_NICE)
    target = Target(grpc, http, remoting, float(seconds))
    target.begin()
    ATTACKS[name].run(target)
    print(json.dumps(target.facts))


if __name__ == "__main__":
    main()
