"""Who calls, whether he may, and what is written down of it: authentication, the table of rules, the audit log."""
