"""Paces what could be done too often: token buckets, backoffs, and throttles of log lines. Pure, also of the clock."""
