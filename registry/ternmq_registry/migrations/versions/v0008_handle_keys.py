"""Keys of the handles that clients get, with the first two of them: a registry is never without."""

import secrets
import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = op.create_table(
        "handle_keys",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False, comment="grows by one"),
        sa.Column("secret", sa.String(64), nullable=False, comment="32 bytes in hex; shown nowhere"),
        sa.Column("created_ms", sa.BigInteger, nullable=False, comment="milliseconds since the epoch"),
        sa.Column("changed", sa.BigInteger, nullable=False, server_default="1", comment="version it is of"),
        sa.Column("checksum", sa.BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py"),
    )
    now_ms = int(time.time() * 1000)
    op.bulk_insert(
        keys, [{"number": number, "secret": secrets.token_hex(32), "created_ms": now_ms} for number in (1, 2)]
    )


def downgrade() -> None:
    op.drop_table("handle_keys")
