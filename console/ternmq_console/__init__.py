"""The console and the JSON API, which operators use at the HTTP port of servers and proxies."""
