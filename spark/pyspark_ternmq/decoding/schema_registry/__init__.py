"""Bodies that name their schema by its id in a schema registry."""
