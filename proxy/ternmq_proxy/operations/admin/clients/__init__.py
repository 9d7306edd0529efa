"""Clients that are connected, and what they subscribe."""
