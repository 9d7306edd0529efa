"""Alembic's entry: runs the steps on the connection that `upgrade` hands over."""

from alembic import context

from ternmq_registry.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
