"""Brokers for frameworks, each an extra of the package: `taskiq` and `faststream` are modules of their names."""
