"""How far the watch for changes has read the log, and what is due to the receivers of alerts.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, UUID

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "alert_cursor",
        sa.Column(
            "single", sa.Boolean, primary_key=True, server_default=sa.true(), comment="makes a second row impossible"
        ),
        sa.Column("position", sa.BigInteger, nullable=False, comment="examined up to this position of the log"),
        sa.CheckConstraint("single", name="alert_cursor_single_check"),
    )
    op.create_table(
        "alert_delivery",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("alert", UUID(as_uuid=False), nullable=False),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("event_id", UUID(as_uuid=False), nullable=False),
        sa.Column("payload", JSONB, nullable=False),
        sa.Column("due_at", moment, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("delivered_at", moment),
        sa.Column("last_error", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.UniqueConstraint("route", "event_id", name="alert_delivery_route_event_id_key"),
    )
    op.create_index("alert_delivery_state_due_at_idx", "alert_delivery", ["state", "due_at"])
    op.create_index("alert_delivery_alert_idx", "alert_delivery", ["alert"])


def downgrade() -> None:
    op.drop_table("alert_delivery")
    op.drop_table("alert_cursor")
