"""Quotas, and the proxies that share them."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("kind", sa.String(8), primary_key=True, comment="QuotaKind"),
        sa.Column("name", sa.String(256), primary_key=True, comment="* is the default of the kind"),
        sa.Column("messages_in", sa.BigInteger, comment="a second; null in this and the others: no limit"),
        sa.Column("bytes_in", sa.BigInteger, comment="a second"),
        sa.Column("messages_out", sa.BigInteger, comment="a second"),
        sa.Column("bytes_out", sa.BigInteger, comment="a second"),
        sa.Column("connections", sa.BigInteger, comment="at one time"),
        sa.Column("topics_per_hour", sa.BigInteger, comment="made by their use"),
        sa.Column("burst_ms", sa.BigInteger, nullable=False, comment="how much of a rate may come at once"),
        sa.Column("changed", sa.BigInteger, nullable=False, server_default="1", comment="version it is of"),
        sa.Column("checksum", sa.BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py"),
    )
    op.create_table(
        "proxies",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("lease_end_ms", sa.BigInteger, nullable=False, comment="by the database's clock"),
        sa.Column(
            "demand", sa.Text, nullable=False, comment="what is wanted of each quota there, as JSON: see quotas.py"
        ),
    )


def downgrade() -> None:
    op.drop_table("proxies")
    op.drop_table("quotas")
