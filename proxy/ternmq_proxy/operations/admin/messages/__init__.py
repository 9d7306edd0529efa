"""Messages, timed messages and transactions, as operators see them."""
