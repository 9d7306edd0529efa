"""Pages about who may do what, how much of it, and who did: users with their policies, quotas, the audit log."""
