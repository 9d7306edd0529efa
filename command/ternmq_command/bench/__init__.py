"""`ternmq bench`: a quick measurement of a server."""
