"""`ternmq context`: names for endpoints."""
