"""Jobs for other machines: submissions, leases, workers and schedules, beside procrastinate's own tables.

procrastinate's tables are made by ingest.log.migrate after the migrations, where the package is installed; `job_engine`
keeps which of its migrations the database has.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_DROP_ENGINE = """
DO $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT oid::regclass AS name FROM pg_class
        WHERE relkind = 'r' AND relname LIKE 'procrastinate\\_%' AND relnamespace = current_schema()::regnamespace
    LOOP EXECUTE format('DROP TABLE %s CASCADE', item.name); END LOOP;
    FOR item IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE proname LIKE 'procrastinate\\_%' AND pronamespace = current_schema()::regnamespace
    LOOP EXECUTE format('DROP FUNCTION %s CASCADE', item.name); END LOOP;
    FOR item IN SELECT oid::regtype AS name FROM pg_type
        WHERE typtype IN ('e', 'c') AND typname LIKE 'procrastinate\\_%' AND typnamespace = current_schema()::regnamespace
    LOOP EXECUTE format('DROP TYPE IF EXISTS %s CASCADE', item.name); END LOOP;
END
$$
"""


def upgrade() -> None:
    op.create_table(
        "job_engine",
        sa.Column(
            "single", sa.Boolean, primary_key=True, server_default=sa.true(), comment="makes a second row impossible"
        ),
        sa.Column("migration", sa.Text, nullable=False, comment="the newest of procrastinate's migrations"),
        sa.CheckConstraint("single", name="job_engine_single_check"),
    )
    _create_jobs()
    _create_workers()


def _create_jobs() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "job_needs",
        sa.Column("digest", sa.Text, primary_key=True, comment="name of the queue of the jobs with these needs"),
        sa.Column("needs", sa.Text, nullable=False, comment="JSON"),
    )
    op.create_table(
        "job_submission",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, comment="name of the schedule that made it"),
        sa.Column("submitted_at", moment, nullable=False),
    )
    op.create_table(
        "job",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("submission", UUID(as_uuid=False), sa.ForeignKey("job_submission.id"), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("needs", sa.Text, sa.ForeignKey("job_needs.digest"), nullable=False),
        sa.Column("plan", sa.Text, nullable=False, comment="JSON"),
        sa.Column("digest", sa.LargeBinary, nullable=False, comment="SHA-256 of plan and needs"),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", moment, comment="not before"),
        sa.Column("submitted_at", moment, nullable=False),
        sa.Column("started_at", moment),
        sa.Column("ended_at", moment),
        sa.Column("worker", sa.Text),
        sa.Column("hardware", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("cancelling", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("run_ids", sa.ARRAY(sa.Text), nullable=False, server_default="{}"),
        sa.Column("queue_id", sa.BigInteger, comment="id in procrastinate_jobs; null once the job has ended"),
    )
    op.create_index("job_submission_idx", "job", ["submission"])
    op.create_index("job_state_id_idx", "job", ["state", "id"])
    op.create_index("job_queue_id_idx", "job", ["queue_id"], postgresql_where=sa.text("queue_id IS NOT NULL"))
    op.create_index("job_digest_idx", "job", ["digest"], postgresql_where=sa.text("state = 'waiting'"))


def _create_workers() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "job_lease",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("job", UUID(as_uuid=False), sa.ForeignKey("job.id"), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("token", sa.Text, comment="id of the token that claimed it; null = none was needed"),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("ended_at", moment),
        sa.Column("outcome", sa.Text, comment="succeeded, failed, cancelled or expired"),
        sa.UniqueConstraint("job", "attempt", name="job_lease_job_attempt_key"),
    )
    op.create_index(
        "job_lease_expires_at_idx", "job_lease", ["expires_at"], postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_table(
        "job_worker",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("description", sa.Text, nullable=False, comment="JSON"),
        sa.Column("seen_at", moment, nullable=False),
    )
    op.create_table(
        "job_schedule",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("submission", sa.Text, nullable=False, comment="JSON"),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("next_at", moment, nullable=False),
        sa.Column("last_submission", UUID(as_uuid=False)),
    )


def downgrade() -> None:
    for table in ("job_schedule", "job_worker", "job_lease", "job", "job_submission", "job_needs", "job_engine"):
        op.drop_table(table)
    op.execute(_DROP_ENGINE)
