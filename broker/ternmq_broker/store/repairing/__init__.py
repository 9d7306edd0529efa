"""Damage of the log: found, noted, repaired."""
