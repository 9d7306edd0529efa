"""What waits: timed messages for their time, transactions for their end."""
