"""`ternmq transaction`: open transactions."""
