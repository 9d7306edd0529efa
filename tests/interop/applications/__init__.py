"""Applications that stand on published frameworks, as clients of a running server."""
