"""Header blocks of HTTP/2: read, encoded, and checked."""
