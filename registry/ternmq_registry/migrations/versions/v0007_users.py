"""Users, with encrypted secrets and policies."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("is_super", sa.Boolean, nullable=False),
        sa.Column("is_enabled", sa.Boolean, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False, comment="milliseconds since the epoch"),
        sa.Column("secrets", sa.Text, nullable=False, comment="JSON, see user_rows.py; sealed"),
        sa.Column("policies", sa.Text, nullable=False, comment="JSON, see user_rows.py"),
        sa.Column("changed", sa.BigInteger, nullable=False, server_default="1", comment="version it is of"),
        sa.Column("checksum", sa.BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py"),
    )
    op.create_index("users_changed", "users", ["changed"])


def downgrade() -> None:
    op.drop_table("users")
