"""The event log, the artifacts and the tokens.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    now = sa.func.clock_timestamp()
    op.create_table(
        "event",
        sa.Column("position", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("time", moment),
        sa.Column("recorded_at", moment, nullable=False, server_default=now),
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of the canonical JSON (RFC 8785)"),
        sa.Column("body", sa.Text, nullable=False, comment="the event exactly as it was sent"),
        sa.PrimaryKeyConstraint("position", name="event_pkey"),
        sa.UniqueConstraint("id", name="event_id_key"),
    )
    op.create_index("event_type_position_idx", "event", ["type", "position"])
    op.create_table(
        "artifact",
        sa.Column("digest", sa.Text, nullable=False, comment="sha256:<hex> of the content"),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("card", sa.Text, nullable=False, comment="JSON"),
        sa.Column("created_at", moment, nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("digest", name="artifact_pkey"),
    )
    op.create_table(
        "token",
        sa.Column("id", UUID(as_uuid=False), nullable=False, server_default=sa.func.gen_random_uuid()),
        sa.Column("prefix", sa.Text, nullable=False, comment="the first characters, to recognise it by"),
        sa.Column("sha256", sa.LargeBinary, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, comment="the only source that it may append as; null = any"),
        sa.Column("scopes", ARRAY(sa.Text), nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("revoked_at", moment),
        sa.Column("created_at", moment, nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="token_pkey"),
        sa.UniqueConstraint("sha256", name="token_sha256_key"),
    )


def downgrade() -> None:
    op.drop_table("token")
    op.drop_table("artifact")
    op.drop_table("event")
