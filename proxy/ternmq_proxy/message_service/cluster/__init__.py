"""The MessageService of a cluster: finds the brokers by the registry, and calls them over streams."""
