"""Decides which consumer gets which message. Pure: the time is an argument; nothing here waits, reads or writes."""
