"""Attacks on the port of the remoting protocol."""
