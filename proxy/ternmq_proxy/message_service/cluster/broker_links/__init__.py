"""The streams to brokers, and the calls on them."""
