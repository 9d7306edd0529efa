"""`ternmq tls`."""
