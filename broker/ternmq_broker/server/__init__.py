"""The broker as a process of a cluster: its storage service, its lease in the registry, its connections to proxies."""
