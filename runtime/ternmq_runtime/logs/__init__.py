"""Logs of a process: how they are written, and the levels of its loggers."""
