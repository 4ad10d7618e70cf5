"""The first tables."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _responses()
    op.create_table(
        "journal",
        sa.Column("chunk", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("first", sa.Integer, nullable=False),
        sa.Column("last", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_index("journal_position", "journal", ["run_id", "first"], unique=True)
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("head", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body_sha256", sa.LargeBinary, nullable=False),
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )
    op.create_index("idempotency_response", "idempotency", ["response_id"])
    op.create_index("idempotency_expiry", "idempotency", ["expires_at"])
    op.create_table(
        "items",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("response_id", sa.Text, primary_key=True),
        sa.Column("upstream_id", sa.Text),
    )
    _held_calls()
    _api_keys()
    _usage()
    _governing()
    op.create_table(
        "agents",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("definition", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
    )
    cluster = op.create_table(
        "cluster",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.bulk_insert(cluster, [{"name": "database_id", "value": secrets.token_hex(16).encode()}])


def _responses() -> None:
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
        sa.Column("request", sa.LargeBinary),
        sa.Column("compacted_context", sa.LargeBinary),
    )
    for name, column, where in (
        ("responses_unfinished", "id", sa.text("terminal_event IS NULL")),
        ("responses_log_kept", "ended_at", sa.text("log_expired = 0")),
    ):
        op.create_index(name, "responses", [column], sqlite_where=where, postgresql_where=where)
    op.create_index("responses_conversation", "responses", ["conversation_id", "created_at"])


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("revoked_at", sa.Float),
    )
    op.create_index("api_keys_sha256", "api_keys", ["sha256"], unique=True)
    op.create_index("api_keys_revoked", "api_keys", ["revoked_at"])
    op.create_table(
        "revoked_tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("revoked_at", sa.Float, nullable=False),
    )


def _held_calls() -> None:
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


def _usage() -> None:
    op.create_table(
        "admissions",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("agent", sa.Text),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("admissions_counted", "admissions", ["tenant", "at"])
    op.create_table(
        "model_calls",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("agent", sa.Text),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("upstream", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("total_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_nano", sa.BigInteger),
        sa.Column("estimated", sa.Integer, nullable=False),
    )
    op.create_index("model_calls_counted", "model_calls", ["tenant", "at"])
    op.create_index("model_calls_day", "model_calls", ["day"])


def _governing() -> None:
    op.create_table(
        "standing",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("held", sa.Integer, nullable=False),
        sa.Column("cancel", sa.Integer, nullable=False),
        sa.Column("by_admin", sa.Integer, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("detail", sa.LargeBinary, nullable=False),
    )
    op.create_index("audit_at", "audit", ["at"])


def downgrade() -> None:
    for table in (
        "revoked_tokens",
        "api_keys",
        "audit",
        "standing",
        "model_calls",
        "admissions",
        "agents",
        "cluster",
        "held_claims",
        "held_results",
        "items",
        "idempotency",
        "checkpoints",
        "journal",
        "responses",
    ):
        op.drop_table(table)
