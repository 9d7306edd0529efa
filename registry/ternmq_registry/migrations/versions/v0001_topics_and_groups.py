"""Topics and consumer groups."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "topics",
        sa.Column("name", sa.String(127), primary_key=True),
        sa.Column("type", sa.String(16), nullable=False, comment="name of the value in v2.MessageType"),
        sa.Column("queues", sa.Integer, nullable=False, comment="message queues on each broker"),
        sa.Column("created_ms", sa.BigInteger, nullable=False, comment="milliseconds since the epoch"),
    )
    op.create_table(
        "consumer_groups",
        sa.Column("name", sa.String(120), primary_key=True),
        sa.Column("fifo", sa.Boolean, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False, comment="deliveries of a message, the first included"),
        sa.Column("created_ms", sa.BigInteger, nullable=False, comment="milliseconds since the epoch"),
    )


def downgrade() -> None:
    op.drop_table("consumer_groups")
    op.drop_table("topics")
