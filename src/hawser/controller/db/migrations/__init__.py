"""Migrations of the tables (Alembic), run by `hawser.controller.db.migrate`."""
