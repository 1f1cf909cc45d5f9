"""The hash chain over the log, the attestation of each event, and the identity of the log.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_BATCH = 20_000
_COPY = f"""
COPY (SELECT position, recorded_at, id, digest, attestation, type, source, subject, time FROM event
      WHERE position > {{after}} ORDER BY position LIMIT {_BATCH}) TO STDOUT (FORMAT binary)
"""
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "log",
        sa.Column(
            "single", sa.Boolean, nullable=False, server_default=sa.true(), comment="makes a second row impossible"
        ),
        sa.Column("id", UUID(as_uuid=False), nullable=False, server_default=sa.func.gen_random_uuid()),
        sa.Column(
            "epoch",
            sa.Integer,
            nullable=False,
            server_default="1",
            comment="grows whenever acknowledged events were lost or replaced",
        ),
        sa.Column("created_at", moment, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.PrimaryKeyConstraint("single", name="log_pkey"),
        sa.CheckConstraint("single", name="log_single_check"),
    )
    op.execute("INSERT INTO log DEFAULT VALUES")
    op.add_column(
        "event",
        sa.Column(
            "attestation",
            sa.Text,
            nullable=False,
            server_default="anonymous",
            comment="how the log knows who appended it: anonymous, bound, signed or service",
        ),
    )
    op.alter_column("event", "attestation", server_default=None)
    op.add_column(
        "event",
        sa.Column("chain", sa.LargeBinary, comment="SHA-256 of the chain before it and this row; see ingest.log.chain"),
    )
    _link_all()
    op.alter_column("event", "chain", nullable=False)


def downgrade() -> None:
    op.drop_column("event", "chain")
    op.drop_column("event", "attestation")
    op.drop_table("log")


def _link_all() -> None:
    """Compute the chain of the events that are there, a batch at a time."""
    connection: Any = op.get_bind().connection.driver_connection
    with connection.cursor() as cursor:
        ((log,),) = cursor.execute("SELECT id FROM log").fetchall()
        previous = hashlib.sha256(uuid.UUID(str(log)).bytes).digest()
        cursor.execute("CREATE TEMPORARY TABLE linked (position bigint, chain bytea) ON COMMIT DROP")
        after = 0
        while True:
            links = []
            with cursor.copy(_COPY.format(after=after)) as copy:
                for block in copy:
                    for position, fields in _rows(bytes(block).removeprefix(_HEADER)):
                        previous = hashlib.sha256(previous + fields).digest()
                        links.append((position, previous))
            if not links:
                return
            with cursor.copy("COPY linked FROM STDIN") as copy:
                for link in links:
                    copy.write_row(link)
            cursor.execute("UPDATE event SET chain = linked.chain FROM linked WHERE event.position = linked.position")
            cursor.execute("TRUNCATE linked")
            after = links[-1][0]


def _rows(data: bytes) -> list[tuple[int, bytes]]:
    """Return position and encoded fields of the rows in a block of a binary COPY."""
    found = []
    start = 0
    while start < len(data) - 2:
        at = start + 2
        for _ in range(9):
            (length,) = struct.unpack_from("!i", data, at)
            at += 4 + max(0, length)
        fields = data[start + 2 : at]
        found.append((struct.unpack_from("!q", fields, 4)[0], fields))
        start = at
    return found
