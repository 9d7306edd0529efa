"""Copies of the registry: in a process's file for a start without it, and from a damaged file."""
