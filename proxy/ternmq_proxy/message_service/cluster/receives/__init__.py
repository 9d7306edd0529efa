"""Receives and pulls of messages that several brokers have."""
