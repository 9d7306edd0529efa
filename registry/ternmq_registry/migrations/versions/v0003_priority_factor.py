"""How strictly a consumer group takes the highest priority first."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.add_column(
            sa.Column("priority_factor", sa.Integer, nullable=False, server_default="99", comment="see model.Group")
        )


def downgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.drop_column("priority_factor")
