"""Brokers for other frameworks, each an extra of the package: the modules `taskiq` and `faststream`."""
