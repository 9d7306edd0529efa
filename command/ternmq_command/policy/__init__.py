"""`ternmq policy`: what users may do."""
