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

cluster = Table(
    "cluster",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""What all processes on this database share: `database_id`, made with the tables, and `seal_key`."""
