"""The JSON API: the Admin service over HTTP."""
