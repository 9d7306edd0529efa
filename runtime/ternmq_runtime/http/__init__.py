"""HTTP/1.1 in a thread of its own: health, metrics, and whatever site is served beside them."""
