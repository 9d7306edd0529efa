"""`ternmq context`: named endpoints."""
