"""Receives: polls that wait, the order of queues with priorities, and the room for a client's messages."""
