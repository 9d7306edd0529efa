"""Topics that take messages of several types, and topics with a flush mode and a retention of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("topics") as table:
        table.add_column(
            sa.Column(
                "mixed",
                sa.Boolean,
                nullable=False,
                server_default=sa.false(),
                comment="whether it takes other types too",
            )
        )
        table.add_column(
            sa.Column(
                "flush",
                sa.String(8),
                nullable=False,
                server_default="",
                comment="FlushMode, empty: as the broker has it",
            )
        )
        table.add_column(
            sa.Column(
                "retention_ms",
                sa.BigInteger,
                nullable=False,
                server_default="0",
                comment="older messages are gone, 0: when the broker removes them",
            )
        )


def downgrade() -> None:
    with op.batch_alter_table("topics") as table:
        for name in ("retention_ms", "flush", "mixed"):
            table.drop_column(name)
