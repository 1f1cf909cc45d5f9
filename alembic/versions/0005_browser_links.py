"""Links to measure in a browser, the devices that opened them, and what each was asked to measure.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    now = sa.func.clock_timestamp()
    op.create_table(
        "browser_link",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sha256", sa.LargeBinary, nullable=False, comment="of the secret in the address"),
        sa.Column("offer", sa.Text, nullable=False, comment="JSON: models, runtime and method"),
        sa.Column("uses", sa.Integer, nullable=False, comment="how many devices may open it"),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False, server_default=now),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("revoked_at", moment),
        sa.UniqueConstraint("sha256", name="browser_link_sha256_key"),
    )
    op.create_table(
        "browser_claim",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("link", sa.Text, sa.ForeignKey("browser_link.id"), nullable=False),
        sa.Column("device", sa.Text, nullable=False, comment="from the SHA-256 of what the page keeps of itself"),
        sa.Column("sha256", sa.LargeBinary, nullable=False, comment="of the key that the page got"),
        sa.Column("claimed_at", moment, nullable=False, server_default=now),
        sa.UniqueConstraint("sha256", name="browser_claim_sha256_key"),
        sa.UniqueConstraint("link", "device", name="browser_claim_link_device_key"),
    )
    op.create_table(
        "browser_task",
        sa.Column("claim", sa.Text, sa.ForeignKey("browser_claim.id"), primary_key=True),
        sa.Column("model", sa.Text, primary_key=True, comment="digest of the model's file"),
        sa.Column("drawn", sa.ARRAY(sa.Integer), nullable=False, comment="which inputs of the pool"),
        sa.Column("begun_at", moment, nullable=False, server_default=now),
    )


def downgrade() -> None:
    op.drop_table("browser_task")
    op.drop_table("browser_claim")
    op.drop_table("browser_link")
