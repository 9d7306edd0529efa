"""`ternmq bench`: a quick look at how fast a server is."""
