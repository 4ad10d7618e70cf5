"""The tables, as SQLAlchemy reads them. Alembic makes them (`migrations/`); a test holds both to each other."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

responses = Table(
    "responses",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("creator", Text, nullable=False, doc="principal id"),
    Column("visibility", Text, nullable=False),
    Column("conversation_id", Text, nullable=False),
    Column("previous_response_id", Text),
    Column("status", Text, nullable=False, doc="of the response; terminal ones never change"),
    Column("fence", Integer, nullable=False, doc="raised by whoever takes the run over"),
    Column("epochs", Text, nullable=False, doc="JSON pairs [token, first number]"),
    Column("created_at", Float, nullable=False, doc="Unix seconds"),
    Column("ended_at", Float),
    Column("input", LargeBinary, nullable=False, doc="items as the client sent them, encoded, comma-joined"),
    Column("context_input", LargeBinary, doc="the same in the upstream's call ids; NULL where equal"),
    Column("context_output", LargeBinary, doc="output items in the upstream's ids"),
    Column("open_calls", LargeBinary, doc="JSON list of calls that wait for an output"),
    Column("response", LargeBinary, nullable=False, doc="the response object, encoded"),
    Column("run_state", LargeBinary, nullable=False, doc="RunState row, encoded"),
    Column("terminal_event", LargeBinary),
    Column("terminal_number", Integer),
    Column("http_status", Integer, doc="what an HTTP create answers with; NULL: 200"),
    Column("deleted", Integer, nullable=False, server_default="0"),
    Column("log_expired", Integer, nullable=False, server_default="0", doc="its journal rows are gone"),
    Column("request", LargeBinary, doc="the create without its input, to go on with it; NULL: nobody can"),
    Column("compacted_context", LargeBinary, doc="in place of context_input and all before it; NULL: none is"),
)
_unfinished = responses.c.terminal_event.is_(None)
Index("responses_unfinished", responses.c.id, sqlite_where=_unfinished, postgresql_where=_unfinished)
Index("responses_conversation", responses.c.conversation_id, responses.c.created_at)
_log_kept = responses.c.log_expired == 0
Index("responses_log_kept", responses.c.ended_at, sqlite_where=_log_kept, postgresql_where=_log_kept)

journal = Table(
    "journal",
    metadata,
    # An ordinary rowid table: interleaved runs would make WITHOUT ROWID insert at random places.
    Column("chunk", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("first", Integer, nullable=False, doc="number of the first event"),
    Column("last", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False, doc="events joined by line feeds (JSON has none)"),
)
Index("journal_position", journal.c.run_id, journal.c.first, unique=True)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("head", Integer, nullable=False, doc="last event of the log at that moment"),
    Column("payload", LargeBinary, nullable=False, doc="see core/checkpoint.py"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("principal", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_sha256", LargeBinary, nullable=False),
    Column("response_id", Text, nullable=False),
    Column("expires_at", Float, nullable=False),
)
Index("idempotency_response", idempotency.c.response_id)
Index("idempotency_expiry", idempotency.c.expires_at)

held_claims = Table(
    "held_claims",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("call_id", Text, primary_key=True),
    Column("principal", Text, doc="who claimed the call; NULL: it was released"),
    Column("holder", Text, doc="key of its instance or connection"),
    Column("fence", Integer, nullable=False, doc="of the last claim"),
    Column("expires_at", Float, nullable=False, doc="Unix seconds"),
)

held_results = Table(
    "held_results",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("call_id", Text, primary_key=True),
    Column("item", LargeBinary, nullable=False, doc="what the client gave, encoded, with our call id"),
    Column("principal", Text, nullable=False, doc="who answered, or which of our deadlines"),
    Column("sender", Text, nullable=False, doc="key of the instance or connection, for repeats"),
    Column("result_id", Text, doc="the sender's own name of the result"),
    Column("answered_at", Float, nullable=False, doc="Unix seconds"),
)

items = Table(
    "items",
    metadata,
    Column("id", Text, primary_key=True, doc="ours of an output item, the client's own of an input item"),
    Column("response_id", Text, primary_key=True),
    Column("upstream_id", Text, doc="what the upstream called it"),
)
"""Where an item stands that a later input names by its id."""

conversations = Table(
    "conversations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("creator", Text, nullable=False, doc="principal id"),
    Column("created_at", Float, nullable=False, doc="Unix seconds"),
    Column("metadata", LargeBinary, nullable=False, doc="JSON object"),
    Column("revision", Integer, nullable=False, doc="raised with each change of the items"),
    Column("head", Text, doc="response whose chain is what the items say; NULL: only the items say it"),
    Column("writer", Text, doc="response that appends when it ends; it counts until then"),
)
"""Conversations that clients made; see store/named_conversations.py."""

conversation_items = Table(
    "conversation_items",
    metadata,
    Column("conversation_id", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("position", Integer, nullable=False, doc="order; there may be holes"),
    Column("item", LargeBinary, nullable=False, doc="as clients see it, encoded"),
)
Index(
    "conversation_items_position",
    conversation_items.c.conversation_id,
    conversation_items.c.position,
    unique=True,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sha256", Text, nullable=False, doc="hex digest; the key itself is kept nowhere"),
    Column("name", Text, nullable=False),
    Column("owner", Text, doc="user whose key it is; NULL: a principal of its own"),
    Column("tenant", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", Float, nullable=False, doc="Unix seconds"),
    Column("expires_at", Float),
    Column("revoked_at", Float),
)
"""Keys made by `antiphon keys`."""
Index("api_keys_sha256", api_keys.c.sha256, unique=True)
Index("api_keys_revoked", api_keys.c.revoked_at)

revoked_tokens = Table(
    "revoked_tokens",
    metadata,
    Column("id", Text, primary_key=True, doc="one signed token, or all of a user; store/revoked_tokens.py"),
    Column("revoked_at", Float, nullable=False, doc="Unix seconds"),
)

agents = Table(
    "agents",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("definition", LargeBinary, nullable=False, doc="JSON, see settings/agents.py:AgentOptions"),
    Column("updated_at", Float, nullable=False, doc="Unix seconds"),
)
"""What tenants stored of their own."""

admissions = Table(
    "admissions",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("agent", Text),
    Column("at", Float, nullable=False, doc="Unix seconds"),
)
"""Runs that took a unit of their tenant's requests."""
Index("admissions_counted", admissions.c.tenant, admissions.c.at)

model_calls = Table(
    "model_calls",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Text, primary_key=True, doc="round of the run, or what else called a model"),
    Column("tenant", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("agent", Text),
    Column("model", Text, nullable=False),
    Column("upstream", Text, nullable=False),
    Column("at", Float, nullable=False, doc="Unix seconds"),
    Column("day", Integer, nullable=False, doc="since 1 January 1970, UTC"),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("total_tokens", BigInteger, nullable=False),
    Column("cost_nano", BigInteger, doc="billionths of the prices' currency; NULL: unknown"),
    Column("estimated", Integer, nullable=False),
)
"""What was used: the total of a run, a tenant or a day is the sum of these."""
Index("model_calls_counted", model_calls.c.tenant, model_calls.c.at)
Index("model_calls_day", model_calls.c.day)

standing = Table(
    "standing",
    metadata,
    Column("scope", Text, primary_key=True, doc="a tenant, or * for the whole server"),
    Column("revision", BigInteger, nullable=False, doc="higher than that of all changes before it"),
    Column("held", Integer, nullable=False, doc="1: nothing new is started"),
    Column("cancel", Integer, nullable=False, doc="1: what was running is cancelled too"),
    Column("by_admin", Integer, nullable=False, doc="1: only an admin changes it again"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Float, nullable=False, doc="Unix seconds"),
    Column("tenant", Text, nullable=False, doc="of who did it"),
    Column("principal", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", LargeBinary, nullable=False, doc="JSON object"),
)
"""Who did what, when, on what: written before the answer."""
Index("audit_at", audit.c.at)

cluster = Table(
    "cluster",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""What all processes on this database share: `database_id`, made with the tables, and `seal_key`."""
