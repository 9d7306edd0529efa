"""Who gets which message: pure decisions. The time comes in as an argument; nothing here waits, reads or writes."""
