"""The responses of a conversation are found by its id."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("responses_conversation", "responses", ["conversation_id", "created_at"])


def downgrade() -> None:
    op.drop_index("responses_conversation", "responses")
