"""Requests of clients that pop, or that have the server share queues out."""
