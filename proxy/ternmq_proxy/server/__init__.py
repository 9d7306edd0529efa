"""The proxy as a process: it starts, joins the registry, serves, and ends."""
