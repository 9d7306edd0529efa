"""State that outlives a single call: connected clients, renewed messages, the turn of the queues."""
