"""Alembic's entry: runs the migrations on the connection that `antiphon.store.database.migrate` gives."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
