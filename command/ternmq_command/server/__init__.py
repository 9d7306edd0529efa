"""Commands of servers: start one, its settings and its clock, the brokers of a cluster, and diagnosis."""
