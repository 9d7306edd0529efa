"""Brokers with their leases, where topics are, what was deleted, and a version of it all."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NAMED = ("topics", "consumer_groups")


def upgrade() -> None:
    version = op.create_table(
        "registry_version",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False, comment="1, the only row"),
        sa.Column("version", sa.BigInteger, nullable=False, comment="raised by every change"),
    )
    op.bulk_insert(version, [{"id": 1, "version": 1}])
    for name in NAMED:
        with op.batch_alter_table(name) as table:
            table.add_column(
                sa.Column("changed", sa.BigInteger, nullable=False, server_default="1", comment="version it is of")
            )
            table.create_index(f"{name}_changed", ["changed"])
    with op.batch_alter_table("topics") as table:
        table.add_column(
            sa.Column("permission", sa.String(16), nullable=False, server_default="read-write", comment="Permission")
        )
    op.create_table(
        "topic_brokers",
        sa.Column("topic", sa.String(127), primary_key=True),
        sa.Column("broker", sa.String(127), primary_key=True),
    )
    op.create_table(
        "brokers",
        sa.Column("name", sa.String(127), primary_key=True),
        sa.Column("store_id", sa.String(64), nullable=False, comment="of the store that the process opened"),
        sa.Column("address", sa.String(512), nullable=False, comment="HOST:PORT of the storage service"),
        sa.Column("epoch", sa.BigInteger, nullable=False, comment="grows with each registration"),
        sa.Column("permission", sa.String(16), nullable=False, comment="Permission"),
        sa.Column("draining", sa.Boolean, nullable=False),
        sa.Column("version", sa.String(64), nullable=False, comment="of the program"),
        sa.Column("started_ms", sa.BigInteger, nullable=False, comment="registration, by the database's clock"),
        sa.Column("lease_end_ms", sa.BigInteger, nullable=False, comment="by the database's clock"),
        sa.Column("load", sa.String(1024), nullable=False, comment="BrokerLoad as JSON"),
        sa.Column("applied", sa.BigInteger, nullable=False, comment="deletions up to this version are done there"),
    )
    op.create_table(
        "removed_stores",
        sa.Column("store_id", sa.String(64), primary_key=True),
        sa.Column("broker", sa.String(127), nullable=False, comment="whose store it was"),
    )
    op.create_table(
        "deletions",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False, comment="Deleted"),
        sa.Column("name", sa.String(127), nullable=False),
    )


def downgrade() -> None:
    for name in ("deletions", "removed_stores", "brokers", "topic_brokers", "registry_version"):
        op.drop_table(name)
    with op.batch_alter_table("topics") as table:
        table.drop_column("permission")
    for name in NAMED:
        with op.batch_alter_table(name) as table:
            table.drop_index(f"{name}_changed")
            table.drop_column("changed")
