"""Peers whose events are pulled, how far each was read, and which events came from which.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    now = sa.func.clock_timestamp()
    op.create_table(
        "peer",
        sa.Column("id", sa.Integer, sa.Identity(always=True), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column(
            "sources", ARRAY(sa.Text), nullable=False, comment="what is taken; one that ends with * is a beginning"
        ),
        sa.Column("types", ARRAY(sa.Text), nullable=False),
        sa.Column(
            "relayed",
            sa.Boolean,
            nullable=False,
            comment="whether events are taken that the peer got from its own peers",
        ),
        sa.Column(
            "token_file", sa.Text, comment="where the machine that pulls has the token of the peer; never the token"
        ),
        sa.Column("log", UUID(as_uuid=False), comment="id of the peer's log; null before the first pull"),
        sa.Column("epoch", sa.Integer),
        sa.Column(
            "position", sa.BigInteger, nullable=False, server_default="0", comment="read up to here, in the peer's log"
        ),
        sa.Column("last_position", sa.BigInteger, comment="the newest of the peer's log at the last pull"),
        sa.Column("accepted", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("duplicate", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("refused", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("refusal", sa.Text, comment="why the last refused event was"),
        sa.Column("problem", sa.Text, comment="why the last pull ended early; null = it did not"),
        sa.Column("problem_at", moment),
        sa.Column("added_at", moment, nullable=False, server_default=now),
        sa.Column("pulled_at", moment),
        sa.Column("removed_at", moment),
    )
    op.create_index("peer_name_key", "peer", ["name"], unique=True, postgresql_where=sa.text("removed_at IS NULL"))
    op.create_table(
        "peer_arrival",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False, comment="of the event in this log"),
        sa.Column("peer", sa.Integer, nullable=False, comment="id in the table peer"),
        sa.Column("peer_position", sa.BigInteger, nullable=False, comment="of the event in the peer's log"),
    )
    op.create_index("peer_arrival_peer_idx", "peer_arrival", ["peer"])


def downgrade() -> None:
    op.drop_table("peer_arrival")
    op.drop_table("peer")
