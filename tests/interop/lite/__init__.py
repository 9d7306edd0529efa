"""Lite consumers of the official clients, and what starts them: see the README."""
