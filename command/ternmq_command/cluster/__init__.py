"""`ternmq cluster`: what concerns all brokers together."""
