"""Transactions of a producer: how they end, and the answers to transaction checks."""
