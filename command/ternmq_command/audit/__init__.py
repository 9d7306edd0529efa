"""`ternmq audit`: the audit log of a server."""
