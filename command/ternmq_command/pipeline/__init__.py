"""`ternmq pipeline`: Spark jobs around a broker."""
