"""Sends on the event loop: one write to the log for a turn of it, one sync for all that wait."""
