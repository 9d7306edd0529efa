"""Sends on the event loop: all sends of one turn are one write to the log, and all waiting sends share one sync."""
