"""Completion in a shell: its script, and the names that the server has."""
