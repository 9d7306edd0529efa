"""`ternmq client`: who is connected to a server."""
