"""What operators have at the HTTP port of servers and proxies: the JSON API under /api/v1."""
