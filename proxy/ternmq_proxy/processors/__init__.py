"""What outlives a single call: connected clients, messages to keep hidden, the turn of the queues."""
