"""Values that tools of RocketMQ keep in a name server."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "name_server_values",
        sa.Column("namespace", sa.String(256), primary_key=True),
        sa.Column("name", sa.String(256), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False, server_default="1", comment="version it is of"),
        sa.Column("checksum", sa.BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py"),
    )


def downgrade() -> None:
    op.drop_table("name_server_values")
