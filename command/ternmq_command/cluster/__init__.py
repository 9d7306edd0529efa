"""`ternmq cluster`: all brokers of a cluster together."""
