"""Every operation of the HTTP side: what it takes and what it answers, by the models of the wire.

A test holds the table against the routes of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon.core.create_request import INCLUDES
from antiphon.settings.agents import AgentOptions
from antiphon_protocol import bodies, feed, status
from antiphon_protocol.input_items import InputItem
from antiphon_protocol.requests import CreateRequest
from antiphon_protocol.response import Response

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
ORDER: Schema = {"enum": ["asc", "desc"], "default": "desc"}
MANY: Schema = {"type": "array", "items": TEXT}
INCLUDE: Schema = {"type": "array", "items": {"enum": sorted(INCLUDES)}}
PAGE = {"limit": LIMIT, "order": ORDER, "after": TEXT, "include": INCLUDE}
FILTER = {
    "state": MANY,
    "agent": MANY,
    "model": MANY,
    "principal": MANY,
    "conversation_id": MANY,
    "tenant": TEXT,
}

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Operation:
    """summary: one sentence. status: of its success. query, headers: by name, with the schema of each.

    answer: type of the body of its success, None for a text. also: its other media types. at_failure: type of what
    a refusal may be beside an error. body: type of what it takes, None for nothing; it may be left out where
    body_needed is False. open: for callers without credentials. gives: the path parameter of other operations that
    its answer has a value of, and where in the answer.
    """

    summary: str
    answer: Any
    body: Any = None
    body_needed: bool = True
    status: int = 200
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    at_failure: Any = None
    open: bool = False
    gives: tuple[str, str] | None = None


_KEY = {"Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 256}}
_CURSOR = {"starting_after": {"type": "integer", "minimum": 0}, "epoch": TEXT}
_INSTANCE = {"X-Antiphon-Instance": {"type": "string", "minLength": 1, "maxLength": 256}}
_ONE = "/v1/responses/{response_id}"
_CONVERSATION = "/v1/conversations/{conversation_id}"
_TENANT = "/v1/admin/tenants/{tenant}"

_RESPONSES = {
    "POST /v1/responses": Operation(
        "Create a response; with `stream` its events follow, with `background` it is answered at once.",
        Response,
        CreateRequest,
        headers=_KEY,
        also=(EVENTS,),
        at_failure=Response,
        gives=("response_id", "/id"),
    ),
    "POST /v1/responses/compact": Operation(
        "Compact a history, to begin a new chain with.", bodies.CompactedResponse, CreateRequest
    ),
    "POST /v1/responses/input_tokens": Operation(
        "Count the tokens that such a create would be read as.", bodies.InputTokens, CreateRequest
    ),
    f"GET {_ONE}": Operation(
        "Read a response, or with `stream=true` follow its events.",
        Response,
        query={"stream": {"type": "boolean"}, "include": INCLUDE, **_CURSOR},
        headers={"Last-Event-ID": TEXT},
        also=(EVENTS,),
    ),
    f"DELETE {_ONE}": Operation("Delete a response that has ended.", bodies.ResponseDeleted),
    f"POST {_ONE}/cancel": Operation("End a response early.", Response),
    f"GET {_ONE}/input_items": Operation("List what a response was given.", bodies.InputItemList, query=PAGE),
    f"POST {_ONE}/steer": Operation("Say more to a run that goes on.", bodies.Steered, bodies.SteerBody),
    f"POST {_ONE}/inject": Operation("Answer held calls.", bodies.Injected, bodies.Inject, headers=_INSTANCE),
    f"POST {_ONE}/claim": Operation("Claim a held call.", bodies.Claimed, bodies.CallToClaim, headers=_INSTANCE),
    f"POST {_ONE}/renew": Operation("Keep a claim.", bodies.Claimed, bodies.ClaimToKeep, headers=_INSTANCE),
    f"POST {_ONE}/release": Operation("Give a claim back.", bodies.Claimed, bodies.ClaimToKeep, headers=_INSTANCE),
}

_CONVERSATIONS = {
    "POST /v1/conversations": Operation(
        "Make a conversation.", bodies.Conversation, bodies.ConversationCreate, gives=("conversation_id", "/id")
    ),
    f"GET {_CONVERSATION}": Operation("Read a conversation.", bodies.Conversation),
    f"POST {_CONVERSATION}": Operation("Give it other metadata.", bodies.Conversation, bodies.ConversationUpdate),
    f"DELETE {_CONVERSATION}": Operation("Delete a conversation.", bodies.ConversationDeleted),
    f"GET {_CONVERSATION}/items": Operation("List its items.", bodies.ConversationItemList, query=PAGE),
    f"POST {_CONVERSATION}/items": Operation(
        "Add items.", bodies.ConversationItemList, bodies.ConversationItemsCreate, query={"include": INCLUDE}
    ),
    f"GET {_CONVERSATION}/items/{{item_id}}": Operation("Read an item.", InputItem, query={"include": INCLUDE}),
    f"DELETE {_CONVERSATION}/items/{{item_id}}": Operation("Delete an item.", bodies.Conversation),
    f"GET {_CONVERSATION}/runs": Operation(
        "List its runs, newest first.", bodies.RunList, query={"limit": LIMIT, "before": TEXT}
    ),
}

_RUNS = {
    "GET /v1/runs": Operation("List the runs that go on or ended just now.", feed.LiveRuns, query=FILTER),
    "GET /v1/runs/feed": Operation(
        "Follow what happens to runs.",
        None,
        query={**FILTER, "mode": {"enum": ["all", "latest"], "default": "all"}},
        headers={"Last-Event-ID": TEXT},
        also=(EVENTS,),
    ),
    "GET /v1/runs/{response_id}": Operation(
        "Read a run and what happened to it.", feed.RunWithTimeline, query={"tenant": TEXT}
    ),
}

_GOVERNING = {
    "GET /v1/agents": Operation("List the agents that a create can name.", bodies.AgentList),
    "GET /v1/agents/{name}": Operation("Read an agent.", bodies.AgentShown),
    "PUT /v1/agents/{name}": Operation(
        "Store an agent of the tenant.", bodies.AgentShown, AgentOptions, status=201, gives=("name", "/name")
    ),
    "DELETE /v1/agents/{name}": Operation("Delete an agent of the tenant.", bodies.AgentDeleted),
    "GET /v1/usage": Operation(
        "Read what was used.",
        bodies.UsageReport,
        query={
            "by": {"enum": ["tenant", "agent", "model", "day"]},
            "from": TEXT,
            "to": TEXT,
            "tenant": TEXT,
        },
    ),
    "GET /v1/admin/tenants": Operation("List the tenants the caller may govern.", feed.TenantList),
    f"POST {_TENANT}/pause": Operation(
        "Start nothing new of a tenant.", bodies.TenantStanding, bodies.Holding, body_needed=False
    ),
    f"POST {_TENANT}/resume": Operation("Let a tenant start runs again.", bodies.TenantStanding),
    "POST /v1/admin/stop": Operation(
        "Start nothing new at all.", bodies.ServerStanding, bodies.Holding, body_needed=False
    ),
    "POST /v1/admin/start": Operation("End the emergency stop.", bodies.ServerStanding),
    "GET /v1/admin/audit": Operation(
        "Read who did what.",
        bodies.AuditLog,
        query={
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
            "before": {"type": "number"},
        },
    ),
    "GET /v1/admin/status": Operation("Read how nodes, upstreams, bus and store do.", status.Status),
}

_REST = {
    "GET /v1/models": Operation(
        "List the models that a create can name.", bodies.ModelList, gives=("model", "/data/0/id")
    ),
    "GET /v1/models/{model}": Operation("Read a model.", bodies.Model),
    "POST /v1/tickets": Operation(
        "Get a ticket for one socket of a page.", bodies.Ticket, bodies.TicketFor, body_needed=False
    ),
    "GET /v1/me": Operation("Read who the caller is.", bodies.Caller),
    "GET /health": Operation("Whether the process lives.", bodies.Health, open=True),
    "GET /ready": Operation("Whether new work is welcome.", bodies.Health, at_failure=bodies.Health, open=True),
    "GET /metrics": Operation("Metrics for Prometheus.", None, also=("text/plain",)),
    "GET /openapi.json": Operation("This document.", dict[str, Any], open=True),
}

OPERATIONS: Mapping[str, Operation] = {**_RESPONSES, **_CONVERSATIONS, **_RUNS, **_GOVERNING, **_REST}
"""By method and path."""
