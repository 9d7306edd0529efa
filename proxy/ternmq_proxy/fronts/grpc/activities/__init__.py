"""One module a call: check the request, have it done, answer. Plain async functions, free of any front's types."""
