"""How Alembic runs migrations: on the connection that `migrate` hands over."""

from alembic import context

from hawser.controller.db.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,  # SQLite cannot alter most of a table
    transactional_ddl=True,  # of SQLite, too: `Database` begins transactions itself
)
with context.begin_transaction():
    context.run_migrations()
