"""Mutation testing: twenty mistakes that the quick tests must find: `python -m tests.mutations`."""
