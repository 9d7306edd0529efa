"""Reports of proxies about themselves, so that operators see each of a cluster."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

COLUMNS = (
    ("server", sa.String(255), "whose process it is; null, with what follows, as above"),
    ("address", sa.String(512), "of its first listener"),
    ("version", sa.String(64), "of the program"),
    ("started_ms", sa.BigInteger, "by its own clock"),
    ("load", sa.Text, "ProxyLoad as JSON"),
)


def upgrade() -> None:
    with op.batch_alter_table("proxies") as table:
        for name, kind, comment in COLUMNS:
            table.add_column(sa.Column(name, kind, comment=comment))


def downgrade() -> None:
    with op.batch_alter_table("proxies") as table:
        for name, _, _ in reversed(COLUMNS):
            table.drop_column(name)
