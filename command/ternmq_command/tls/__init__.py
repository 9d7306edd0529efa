"""`ternmq tls`: certificates for development."""
