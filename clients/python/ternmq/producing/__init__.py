"""Producing: the producer, its requests, and their repetition."""
