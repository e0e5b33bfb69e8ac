"""Who may do what: users, sessions, API keys, roles, and the log of what was done."""
