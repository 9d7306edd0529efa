"""Checksums of rows, for the embedded registry, which fills them in when it is opened."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

CHECKED = ("registry_version", "topics", "topic_brokers", "consumer_groups")


def upgrade() -> None:
    for name in CHECKED:
        with op.batch_alter_table(name) as table:
            table.add_column(
                sa.Column(
                    "checksum", sa.BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py"
                )
            )


def downgrade() -> None:
    for name in CHECKED:
        with op.batch_alter_table(name) as table:
            table.drop_column("checksum")
