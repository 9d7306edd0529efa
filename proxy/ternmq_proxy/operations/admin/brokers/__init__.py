"""Brokers of a cluster, and their replicas."""
