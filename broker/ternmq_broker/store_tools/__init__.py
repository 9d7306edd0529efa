"""Tools for a store: inspection beside a running broker or not, backup, and repair of a store that no broker has open.

Nothing here prints: functions report their progress to a `Progress`, and raise StartupError or OSError.
"""
