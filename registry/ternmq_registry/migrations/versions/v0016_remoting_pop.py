"""Whether a consumer group's members by the remoting protocol pop."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.add_column(
            sa.Column(
                "remoting_pop", sa.Boolean, nullable=False, server_default=sa.false(), comment="see group_settings.py"
            )
        )


def downgrade() -> None:
    with op.batch_alter_table("consumer_groups") as table:
        table.drop_column("remoting_pop")
