"""The proxy's interface to brokers, and its implementations: in this process, and in a cluster."""
