"""Calls that last: Telemetry, health, reflection, and polls that wait; with what ends them early."""
