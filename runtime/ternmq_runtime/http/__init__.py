"""An HTTP/1.1 server in a thread of its own: health, metrics, and a site beside them."""
