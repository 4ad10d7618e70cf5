"""Where unfinished runs stand, and what was asked of them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("head", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.add_column("responses", sa.Column("request", sa.LargeBinary))


def downgrade() -> None:
    op.drop_table("checkpoints")
    op.drop_column("responses", "request")
