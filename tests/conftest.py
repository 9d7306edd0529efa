"""What holds for all tests: a busy machine is no bug, what hypothesis finds can be seen again, and processes that tests
start hear Ctrl-C as on a terminal, also in a background job of a shell, which ignores it and hands that down."""

import signal

from hypothesis import settings

settings.register_profile("ternmq", deadline=None, print_blob=True)
settings.load_profile("ternmq")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
