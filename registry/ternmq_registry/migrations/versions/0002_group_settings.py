"""How a consumer group retries, begins, shares out its queues and locks them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.add_column(
            sa.Column(
                "retry_backoff", sa.String(1024), nullable=False, server_default="", comment="see retry_backoff.py"
            )
        )
        table.add_column(
            sa.Column("consume_from", sa.String(32), nullable=False, server_default="auto", comment="see model.Group")
        )
        table.add_column(
            sa.Column(
                "assignment", sa.String(4096), nullable=False, server_default="averagely", comment="see model.Group"
            )
        )
        table.add_column(
            sa.Column("queue_lock_hold_ms", sa.BigInteger, nullable=False, server_default="0", comment="0: no lock")
        )


def downgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        for name in ("queue_lock_hold_ms", "assignment", "consume_from", "retry_backoff"):
            table.drop_column(name)
