"""The topics of removed brokers, for when they rejoin."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("removed_stores") as table:
        table.add_column(
            sa.Column("topics", sa.Text, comment="on which it was, as JSON: see removals.py; null of an older version")
        )


def downgrade() -> None:
    with op.batch_alter_table("removed_stores") as table:
        table.drop_column("topics")
