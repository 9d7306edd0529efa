"""Paces what could be done too often: token buckets, and throttles of log lines. Pure: the clock is an argument."""
