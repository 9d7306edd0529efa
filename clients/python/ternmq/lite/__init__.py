"""Internals of the consumers of lite topics; users import these from `ternmq`."""
