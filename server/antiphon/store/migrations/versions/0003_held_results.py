"""Answers and claims of held calls."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "held_results",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("call_id", sa.Text, primary_key=True),
        sa.Column("item", sa.LargeBinary, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("result_id", sa.Text),
        sa.Column("answered_at", sa.Float, nullable=False),
    )
    op.create_table(
        "held_claims",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("call_id", sa.Text, primary_key=True),
        sa.Column("principal", sa.Text),
        sa.Column("holder", sa.Text),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("held_claims")
    op.drop_table("held_results")
