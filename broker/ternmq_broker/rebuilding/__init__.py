"""A lost registry, made again of what a store holds."""
