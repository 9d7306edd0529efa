"""Shards with replicas, and how topics want to be replicated."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("brokers") as table:
        table.add_column(
            sa.Column("replicas", sa.Integer, nullable=False, server_default="1", comment="how many there may be")
        )
        table.add_column(
            sa.Column("min_insync", sa.Integer, nullable=False, server_default="0", comment="0: a majority of replicas")
        )
        table.add_column(
            sa.Column("replication", sa.String(8), nullable=False, server_default="sync", comment="ReplicationMode")
        )
        table.add_column(
            sa.Column("move_to", sa.String(64), nullable=False, server_default="", comment="store that is to lead")
        )
    with op.batch_alter_table("topics") as table:
        table.add_column(
            sa.Column(
                "replication",
                sa.String(8),
                nullable=False,
                server_default="",
                comment="ReplicationMode, empty: as the shard has it",
            )
        )
    op.create_table(
        "replicas",
        sa.Column("broker", sa.String(127), primary_key=True),
        sa.Column("store_id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(127), nullable=False, comment="unique in the shard"),
        sa.Column("address", sa.String(512), nullable=False, comment="HOST:PORT of the storage service"),
        sa.Column("in_sync", sa.Boolean, nullable=False, comment="has all that was acknowledged"),
        sa.Column("version", sa.String(64), nullable=False, comment="of the program"),
        sa.Column("started_ms", sa.BigInteger, nullable=False, comment="by the database's clock"),
        sa.Column("lease_end_ms", sa.BigInteger, nullable=False, comment="by the database's clock"),
        sa.Column("position", sa.BigInteger, nullable=False, comment="its log is durable below, as last told"),
        sa.UniqueConstraint("broker", "name", name="replicas_name"),
    )


def downgrade() -> None:
    op.drop_table("replicas")
    with op.batch_alter_table("topics") as table:
        table.drop_column("replication")
    with op.batch_alter_table("brokers") as table:
        for name in ("move_to", "replication", "min_insync", "replicas"):
            table.drop_column(name)
