"""Access control: users, sessions, API keys, roles, and the audit log."""
