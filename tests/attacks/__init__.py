"""Attacks on a running server by one peer, beside a healthy client: `python -m tests.attacks`."""
