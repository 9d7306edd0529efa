"""Topics, as operators see them."""
