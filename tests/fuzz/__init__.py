"""Clients that say nearly what they should: `python -m tests.fuzz --inputs 1000000`."""
