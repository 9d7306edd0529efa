"""`ternmq pipeline`: Spark jobs that read and write topics."""
