"""Messages: what is sent, what is received, their ids, their bodies in JSON, and filters."""
