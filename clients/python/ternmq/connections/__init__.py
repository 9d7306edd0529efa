"""Connections to servers: channels, addresses, credentials, sessions, and the routes to the queues of topics."""
