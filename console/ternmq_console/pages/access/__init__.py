"""Pages of access: users with their policies, quotas, the audit log."""
