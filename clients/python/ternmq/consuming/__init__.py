"""Consuming: the push and the simple consumer, their receives, and how deliveries are settled."""
