"""`ternmq client`: connected clients."""
