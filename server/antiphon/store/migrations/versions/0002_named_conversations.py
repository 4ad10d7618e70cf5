"""Conversations that clients make, and their items."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("creator", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("metadata", sa.LargeBinary, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("head", sa.Text),
        sa.Column("writer", sa.Text),
    )
    op.create_table(
        "conversation_items",
        sa.Column("conversation_id", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("item", sa.LargeBinary, nullable=False),
    )
    op.create_index(
        "conversation_items_position", "conversation_items", ["conversation_id", "position"], unique=True
    )


def downgrade() -> None:
    for table in ("conversation_items", "conversations"):
        op.drop_table(table)
