"""Queries of a store from outside, beside a running broker or not; repairing one that no broker has; backups.

Nothing here prints: functions tell how far they are by a `Progress`, and raise StartupError or OSError.
"""
