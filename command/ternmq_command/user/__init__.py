"""`ternmq user`: users and their secrets."""
