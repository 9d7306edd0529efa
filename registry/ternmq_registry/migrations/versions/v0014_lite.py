"""LITE topics that say when their lite topics are dropped, and lite groups."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("topics") as table:
        table.add_column(
            sa.Column(
                "lite_ttl_ms",
                sa.BigInteger,
                nullable=False,
                server_default="0",
                comment="silent lite topics are dropped, 0: when the broker has removed their messages",
            )
        )
    with op.batch_alter_table("consumer_groups") as table:
        table.add_column(
            sa.Column(
                "lite",
                sa.Text,
                nullable=False,
                server_default="",
                comment="see lite_group.py, empty: no lite group",
            )
        )


def downgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.drop_column("lite")
    with op.batch_alter_table("topics") as table:
        table.drop_column("lite_ttl_ms")
