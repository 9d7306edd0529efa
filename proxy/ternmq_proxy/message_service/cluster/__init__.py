"""The MessageService of a cluster: finds brokers in the registry, and calls them over streams."""
