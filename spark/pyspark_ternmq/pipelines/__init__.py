"""Pipelines: Spark jobs around a broker, each a function here and a subcommand of `ternmq pipeline`."""
