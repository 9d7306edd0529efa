"""Locks of queues: those that the broker gives to readers, and those that clients ask for."""
