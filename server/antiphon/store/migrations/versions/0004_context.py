"""Compacted histories, and where an item stands that is named by its id."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("responses", sa.Column("compacted_context", sa.LargeBinary))
    op.create_table(
        "items",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("response_id", sa.Text, primary_key=True),
        sa.Column("upstream_id", sa.Text),
    )


def downgrade() -> None:
    op.drop_table("items")
    op.drop_column("responses", "compacted_context")
