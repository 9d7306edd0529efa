"""Authentication, the table of access rules, and the audit log."""
