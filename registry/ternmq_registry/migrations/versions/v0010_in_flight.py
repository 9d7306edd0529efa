"""How many messages a quota lets be in flight, and what proxies tell each other that is taken of quotas there."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("quotas") as table:
        table.add_column(sa.Column("in_flight", sa.BigInteger, comment="handed out and not settled, at one time"))
    with op.batch_alter_table("proxies") as table:
        table.add_column(
            sa.Column(
                "uses",
                sa.Text,
                comment="what is taken of each quota there, as JSON: see quotas.py; null of an older proxy",
            )
        )


def downgrade() -> None:
    with op.batch_alter_table("proxies") as table:
        table.drop_column("uses")
    with op.batch_alter_table("quotas") as table:
        table.drop_column("in_flight")
