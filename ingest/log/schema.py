"""The log's schema in Postgres; alembic/ brings a database to it, migration by migration."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, UUID

__all__ = ["ORDERING_LOCK", "archive_segment", "artifact", "event", "log", "metadata", "signing_key", "token"]

ORDERING_LOCK = 4_702_111_234_474_983_745
"""Key of the advisory lock that every append takes; any other writer into `event` has to take it too."""

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

event = Table(
    "event",
    metadata,
    Column("position", BigInteger, Identity(always=True), primary_key=True),
    Column("id", UUID(as_uuid=False), nullable=False),
    Column("type", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("subject", Text),
    Column("time", DateTime(timezone=True)),
    Column("recorded_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of the event exactly as it was sent"),
    Column("body", Text, comment="the event exactly as it was sent; null = in the archive, or samples that expired"),
    Column(
        "attestation",
        Text,
        nullable=False,
        comment="how the log knows who appended it: anonymous, bound, signed or service",
    ),
    Column(
        "chain",
        LargeBinary,
        nullable=False,
        comment="SHA-256 of the chain before it and this row; see ingest.log.chain",
    ),
    UniqueConstraint("id"),
)
Index(None, event.c.type, event.c.position)
Index(None, event.c.subject, event.c.position, postgresql_where=event.c.subject.is_not(None))
Index(None, event.c.recorded_at, postgresql_using="brin")

log = Table(
    "log",
    metadata,
    Column("single", Boolean, primary_key=True, server_default=true(), comment="makes a second row impossible"),
    Column("id", UUID(as_uuid=False), nullable=False, server_default=func.gen_random_uuid()),
    Column(
        "epoch",
        Integer,
        nullable=False,
        server_default="1",
        comment="grows whenever acknowledged events were lost or replaced",
    ),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("single", name="log_single_check"),
)

archive_segment = Table(
    "archive_segment",
    metadata,
    Column("first_position", BigInteger, primary_key=True, autoincrement=False),
    Column("last_position", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("facts", Text, nullable=False, comment="file of all events but raw samples, in the archive's folder"),
    Column("samples", Text, comment="file of the raw samples; null = none, or expired"),
    Column("facts_sha256", LargeBinary, nullable=False),
    Column("samples_sha256", LargeBinary),
    Column("bytes", BigInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("trimmed_at", DateTime(timezone=True), comment="when the bodies left the table `event`"),
)

artifact = Table(
    "artifact",
    metadata,
    Column("digest", Text, primary_key=True, comment="sha256:<hex> of the content"),
    Column("kind", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("card", Text, nullable=False, comment="JSON"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)

token = Table(
    "token",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True, server_default=func.gen_random_uuid()),
    Column("prefix", Text, nullable=False, comment="the first characters, to recognise it by"),
    Column("sha256", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    Column("source", Text, comment="the only source that it may append as; null = any"),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("sha256"),
)

signing_key = Table(
    "signing_key",
    metadata,
    Column("id", Text, primary_key=True, comment="ed25519:<first 32 hex digits of the SHA-256 of the public key>"),
    Column("public_key", LargeBinary, nullable=False, comment="32 bytes"),
    Column("source", Text, nullable=False, comment="the source whose events it may sign"),
    Column("name", Text, nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("public_key"),
)
