"""Servers: starting one, its settings and its clock, the brokers of a cluster, and what may be wrong."""
