"""What was written to the audit log, for who asks later: files from their ends, entries, and pages of them."""
