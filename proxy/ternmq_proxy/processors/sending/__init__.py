"""Processes a sent message: inflates it, chooses its queue, and writes its stored form."""
