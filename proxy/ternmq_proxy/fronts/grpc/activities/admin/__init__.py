"""Calls of `ternmq.admin.v1.Admin`, and what they ask of other processes."""
