"""The version at which each topic and group was created: brokers have to remove an earlier one of its name first."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NAMED = ("topics", "consumer_groups")


def upgrade() -> None:
    for name in NAMED:
        with op.batch_alter_table(name) as table:
            table.add_column(
                sa.Column(
                    "made",
                    sa.BigInteger,
                    nullable=False,
                    server_default="0",
                    comment="version it was made at, 0: unknown",
                )
            )


def downgrade() -> None:
    for name in NAMED:
        with op.batch_alter_table(name) as table:
            table.drop_column("made")
