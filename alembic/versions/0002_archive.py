"""Room for the archive, and for reading by subject and time.

A body may leave the table for the archive; the digest is that of the event as it was sent, so that it can be computed
in the database and still be compared when the body has gone.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import hashlib
import json

import rfc8785
import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SENT = "SHA-256 of the event exactly as it was sent"
_CANONICAL = "SHA-256 of the canonical JSON (RFC 8785)"


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.execute("UPDATE event SET digest = sha256(convert_to(body, 'UTF8'))")
    op.alter_column("event", "digest", comment=_SENT, existing_comment=_CANONICAL, existing_nullable=False)
    op.alter_column(
        "event",
        "body",
        nullable=True,
        comment="the event exactly as it was sent; null = in the archive, or samples that expired",
        existing_comment="the event exactly as it was sent",
    )
    op.create_index(
        "event_subject_position_idx", "event", ["subject", "position"], postgresql_where=sa.text("subject IS NOT NULL")
    )
    op.create_index("event_recorded_at_idx", "event", ["recorded_at"], postgresql_using="brin")
    op.create_table(
        "archive_segment",
        sa.Column("first_position", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("last_position", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column(
            "facts", sa.Text, nullable=False, comment="file of all events but raw samples, in the archive's folder"
        ),
        sa.Column("samples", sa.Text, comment="file of the raw samples; null = none, or expired"),
        sa.Column("facts_sha256", sa.LargeBinary, nullable=False),
        sa.Column("samples_sha256", sa.LargeBinary),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", moment, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("trimmed_at", moment, comment="when the bodies left the table `event`"),
        sa.PrimaryKeyConstraint("first_position", name="archive_segment_pkey"),
    )


def downgrade() -> None:
    """Fails, and changes nothing, while bodies are only in the archive: they have to be brought back first."""
    op.drop_table("archive_segment")
    op.drop_index("event_recorded_at_idx", "event")
    op.drop_index("event_subject_position_idx", "event")
    op.alter_column("event", "body", nullable=False, comment="the event exactly as it was sent")
    op.alter_column("event", "digest", comment=_CANONICAL, existing_nullable=False)
    _canonical_digests()


def _canonical_digests() -> None:
    """Give every event the digest that the version before compares by."""
    connection = op.get_bind()
    reach = sa.text("SELECT position, body FROM event WHERE position > :after ORDER BY position LIMIT 5000")
    change = sa.text("UPDATE event SET digest = :digest WHERE position = :position")
    after = 0
    while rows := connection.execute(reach, {"after": after}).fetchall():
        connection.execute(
            change,
            [
                {"position": position, "digest": hashlib.sha256(rfc8785.dumps(json.loads(body))).digest()}
                for position, body in rows
            ],
        )
        after = rows[-1][0]
