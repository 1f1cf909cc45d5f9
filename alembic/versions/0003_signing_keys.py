"""Public keys of runners that sign their events.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "signing_key",
        sa.Column("id", sa.Text, comment="ed25519:<first 32 hex digits of the SHA-256 of the public key>"),
        sa.Column("public_key", sa.LargeBinary, nullable=False, comment="32 bytes"),
        sa.Column("source", sa.Text, nullable=False, comment="the source whose events it may sign"),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("revoked_at", moment),
        sa.Column("created_at", moment, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.PrimaryKeyConstraint("id", name="signing_key_pkey"),
        sa.UniqueConstraint("public_key", name="signing_key_public_key_key"),
    )


def downgrade() -> None:
    op.drop_table("signing_key")
