"""`ternmq policy`: policies of users."""
