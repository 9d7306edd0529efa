"""Runs checks and tests, tier by tier, at the same time where the machine has room: `python -m tools.tiers --help`.

`tiers` lists all tiers and what each needs, `scheduler` decides what may run now, `execution` runs it, `report` prints
and keeps the results, and `timings` is the pytest plugin that measures tests and fixtures.
"""
