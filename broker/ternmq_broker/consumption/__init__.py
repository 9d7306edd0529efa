"""What groups do with messages: pop, pull, settle, and what becomes of a claim that ended."""
