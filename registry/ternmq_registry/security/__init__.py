"""Users, their secrets, and the keys of handles in the registry."""
