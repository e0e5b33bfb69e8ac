"""The database: tables, migrations, transactions, backup. SQLite, or PostgreSQL by URL."""
