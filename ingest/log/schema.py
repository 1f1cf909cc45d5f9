"""The log's schema in Postgres; alembic/ brings a database to it, migration by migration."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    func,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

__all__ = [
    "ORDERING_LOCK",
    "alert_cursor",
    "alert_delivery",
    "archive_segment",
    "artifact",
    "browser_claim",
    "browser_link",
    "browser_task",
    "event",
    "job",
    "job_engine",
    "job_lease",
    "job_needs",
    "job_schedule",
    "job_submission",
    "job_worker",
    "log",
    "metadata",
    "peer",
    "peer_arrival",
    "signing_key",
    "token",
]

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

browser_link = Table(
    "browser_link",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", LargeBinary, nullable=False, comment="of the secret in the address"),
    Column("offer", Text, nullable=False, comment="JSON: models, runtime and method"),
    Column("uses", Integer, nullable=False, comment="how many devices may open it"),
    Column("created_by", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    UniqueConstraint("sha256"),
)

browser_claim = Table(
    "browser_claim",
    metadata,
    Column("id", Text, primary_key=True),
    Column("link", Text, ForeignKey("browser_link.id"), nullable=False),
    Column("device", Text, nullable=False, comment="from the SHA-256 of what the page keeps of itself"),
    Column("sha256", LargeBinary, nullable=False, comment="of the key that the page got"),
    Column("claimed_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("sha256"),
    UniqueConstraint("link", "device", name="browser_claim_link_device_key"),
)

browser_task = Table(
    "browser_task",
    metadata,
    Column("claim", Text, ForeignKey("browser_claim.id"), primary_key=True),
    Column("model", Text, primary_key=True, comment="digest of the model's file"),
    Column("drawn", ARRAY(Integer), nullable=False, comment="which inputs of the pool"),
    Column("begun_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
)

alert_cursor = Table(
    "alert_cursor",
    metadata,
    Column("single", Boolean, primary_key=True, server_default=true(), comment="makes a second row impossible"),
    Column("position", BigInteger, nullable=False, comment="examined up to this position of the log"),
    CheckConstraint("single", name="alert_cursor_single_check"),
)

alert_delivery = Table(
    "alert_delivery",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("alert", UUID(as_uuid=False), nullable=False),
    Column("route", Text, nullable=False),
    Column("event_id", UUID(as_uuid=False), nullable=False),
    Column("payload", JSONB, nullable=False),
    Column("due_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("delivered_at", DateTime(timezone=True)),
    Column("last_error", Text),
    Column("state", Text, nullable=False),
    UniqueConstraint("route", "event_id", name="alert_delivery_route_event_id_key"),
)
Index(None, alert_delivery.c.state, alert_delivery.c.due_at)
Index(None, alert_delivery.c.alert)

job_engine = Table(
    "job_engine",
    metadata,
    Column("single", Boolean, primary_key=True, server_default=true(), comment="makes a second row impossible"),
    Column("migration", Text, nullable=False, comment="the newest of procrastinate's migrations"),
    CheckConstraint("single", name="job_engine_single_check"),
)

job_needs = Table(
    "job_needs",
    metadata,
    Column("digest", Text, primary_key=True, comment="name of the queue of the jobs with these needs"),
    Column("needs", Text, nullable=False, comment="JSON"),
)

job_submission = Table(
    "job_submission",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text),
    Column("author", Text, nullable=False),
    Column("schedule", Text, comment="name of the schedule that made it"),
    Column("submitted_at", DateTime(timezone=True), nullable=False),
)

job = Table(
    "job",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("submission", UUID(as_uuid=False), ForeignKey("job_submission.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("needs", Text, ForeignKey("job_needs.digest"), nullable=False),
    Column("plan", Text, nullable=False, comment="JSON"),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 of plan and needs"),
    Column("priority", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False),
    Column("at", DateTime(timezone=True), comment="not before"),
    Column("submitted_at", DateTime(timezone=True), nullable=False),
    Column("started_at", DateTime(timezone=True)),
    Column("ended_at", DateTime(timezone=True)),
    Column("worker", Text),
    Column("hardware", Text),
    Column("reason", Text),
    Column("cancelling", Boolean, nullable=False, server_default=false()),
    Column("run_ids", ARRAY(Text), nullable=False, server_default="{}"),
    Column("queue_id", BigInteger, comment="id in procrastinate_jobs; null once the job has ended"),
)
Index("job_submission_idx", job.c.submission)
Index(None, job.c.state, job.c.id)
Index(None, job.c.queue_id, postgresql_where=job.c.queue_id.is_not(None))
Index(None, job.c.digest, postgresql_where=job.c.state == "waiting")

job_lease = Table(
    "job_lease",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("job", UUID(as_uuid=False), ForeignKey("job.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("token", Text, comment="id of the token that claimed it; null = none was needed"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True)),
    Column("outcome", Text, comment="succeeded, failed, cancelled or expired"),
    UniqueConstraint("job", "attempt", name="job_lease_job_attempt_key"),
)
Index(None, job_lease.c.expires_at, postgresql_where=job_lease.c.ended_at.is_(None))

job_worker = Table(
    "job_worker",
    metadata,
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False, comment="JSON"),
    Column("seen_at", DateTime(timezone=True), nullable=False),
)

job_schedule = Table(
    "job_schedule",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cron", Text, nullable=False),
    Column("submission", Text, nullable=False, comment="JSON"),
    Column("author", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("next_at", DateTime(timezone=True), nullable=False),
    Column("last_submission", UUID(as_uuid=False)),
)

peer = Table(
    "peer",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("sources", ARRAY(Text), nullable=False, comment="what is taken; one that ends with * is a beginning"),
    Column("types", ARRAY(Text), nullable=False),
    Column("relayed", Boolean, nullable=False, comment="whether events are taken that the peer got from its own peers"),
    Column("token_file", Text, comment="where the machine that pulls has the token of the peer; never the token"),
    Column("log", UUID(as_uuid=False), comment="id of the peer's log; null before the first pull"),
    Column("epoch", Integer),
    Column("position", BigInteger, nullable=False, server_default="0", comment="read up to here, in the peer's log"),
    Column("last_position", BigInteger, comment="the newest of the peer's log at the last pull"),
    Column("accepted", BigInteger, nullable=False, server_default="0"),
    Column("duplicate", BigInteger, nullable=False, server_default="0"),
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Column("refusal", Text, comment="why the last refused event was"),
    Column("problem", Text, comment="why the last pull ended early; null = it did not"),
    Column("problem_at", DateTime(timezone=True)),
    Column("added_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("pulled_at", DateTime(timezone=True)),
    Column("removed_at", DateTime(timezone=True)),
)
Index("peer_name_key", peer.c.name, unique=True, postgresql_where=peer.c.removed_at.is_(None))

peer_arrival = Table(
    "peer_arrival",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False, comment="of the event in this log"),
    Column("peer", Integer, nullable=False, comment="id in the table peer"),
    Column("peer_position", BigInteger, nullable=False, comment="of the event in the peer's log"),
)
Index(None, peer_arrival.c.peer)
