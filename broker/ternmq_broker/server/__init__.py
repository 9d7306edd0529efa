"""The broker as a process of a cluster: its storage service, its lease in the registry, and what proxies tell it."""
