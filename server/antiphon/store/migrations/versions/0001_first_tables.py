"""The first tables: responses, journal, idempotency."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "responses",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("creator", sa.Text, nullable=False),
        sa.Column("visibility", sa.Text, nullable=False),
        sa.Column("conversation_id", sa.Text, nullable=False),
        sa.Column("previous_response_id", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("epochs", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
        sa.Column("input", sa.LargeBinary, nullable=False),
        sa.Column("context_input", sa.LargeBinary),
        sa.Column("context_output", sa.LargeBinary),
        sa.Column("open_calls", sa.LargeBinary),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("run_state", sa.LargeBinary, nullable=False),
        sa.Column("terminal_event", sa.LargeBinary),
        sa.Column("terminal_number", sa.Integer),
        sa.Column("http_status", sa.Integer),
        sa.Column("deleted", sa.Integer, nullable=False, server_default="0"),
        sa.Column("log_expired", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_index("responses_unfinished", "responses", ["id"], sqlite_where=sa.text("terminal_event IS NULL"))
    op.create_index("responses_log_kept", "responses", ["ended_at"], sqlite_where=sa.text("log_expired = 0"))
    op.create_table(
        "journal",
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("first", sa.Integer, nullable=False),
        sa.Column("last", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_index("journal_position", "journal", ["run_id", "first"], unique=True)
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body_sha256", sa.LargeBinary, nullable=False),
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )


def downgrade() -> None:
    for table in ("idempotency", "journal", "responses"):
        op.drop_table(table)
