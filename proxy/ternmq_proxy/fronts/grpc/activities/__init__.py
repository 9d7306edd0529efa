"""One module for each call: check the request, run the operation, answer. Plain async functions, free of any front's
types."""
