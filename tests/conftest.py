"""What holds for all tests: a busy machine is no bug, and what hypothesis finds can be seen again."""

from hypothesis import settings

settings.register_profile("ternmq", deadline=None, print_blob=True)
settings.load_profile("ternmq")
