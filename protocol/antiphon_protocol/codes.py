"""Every error code of ours, in one table. `protocol/PROTOCOL.md` prints it; a test holds both to each other.

An upstream's own codes pass through a failed run unchanged and are not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Place = Literal["request", "run", "extension"]


@dataclass(frozen=True, slots=True)
class CodeSpec:
    """What one code means on the wire.

    place: `request` answers a create or an HTTP call, `run` ends a run that had begun,
    `extension` answers an `antiphon:` command. status: HTTP status, also the integer
    `status` of a WebSocket `error` event. retryable: sending the same again later can work.
    """

    status: int
    retryable: bool
    place: tuple[Place, ...]
    meaning: str


def _request(status: int, meaning: str, *, retryable: bool = False) -> CodeSpec:
    return CodeSpec(status, retryable, ("request",), meaning)


def _extension(status: int, meaning: str) -> CodeSpec:
    return CodeSpec(status, False, ("extension",), meaning)


CODES: dict[str, CodeSpec] = {
    # What the client sent cannot be read.
    "invalid_json": _request(400, "The frame or body is not one JSON object we can hold exactly."),
    "unsupported_event_type": _request(400, "The frame has no `type` this server knows."),
    "invalid_request": _request(400, "A field is missing, of the wrong type or out of range; `param` names it."),
    "unsupported_parameter": _request(400, "A field is valid but this server does not offer what it asks for."),
    "unsupported_tool": _request(400, "Nobody here can execute a tool of this type; `param` names it."),
    "unsupported_media_type": _request(
        415, "A request body needs `Content-Type: application/json` and no `Content-Encoding`."
    ),
    "payload_too_large": _request(413, "The body is larger than the limit."),
    "headers_too_large": _request(431, "Request line and headers together are larger than the limit."),
    "request_timeout": _request(408, "The request came too slowly.", retryable=True),
    "input_url_not_allowed": _request(400, "A URL of the input leads to the server's own network."),
    # Lanes and connections.
    "invalid_stream_id": _request(400, "`stream_id` is not 1-256 characters of A-Z a-z 0-9 _ . -"),
    "websocket_stream_limit_reached": _request(400, "The connection already used all its named lanes."),
    "websocket_connection_limit_reached": _request(
        400, "The connection is too old for new turns.", retryable=True
    ),
    "too_many_queued": _request(429, "The connection has too many turns waiting.", retryable=True),
    "lane_in_use": CodeSpec(400, False, ("request", "extension"), "The lane belongs to an attachment."),
    "rate_limited": CodeSpec(
        429, True, ("request", "extension"), "Sent faster than the server takes it; wait for `retry-after`."
    ),
    "too_many_connections": _request(429, "The address, principal or tenant has all the sockets it may have."),
    # What the request refers to.
    "previous_response_not_found": _request(
        404, "Unknown, foreign, evicted or deleted parent (400 on WebSocket)."
    ),
    "response_not_continuable": _request(400, "The parent failed; continue from the response before it."),
    "response_in_progress": _request(409, "The response has not ended yet.", retryable=True),
    "tool_output_missing": _request(400, "The parent has open calls that the input does not answer."),
    "tool_output_unknown": _request(400, "An output answers a call that is not open here."),
    "tool_output_duplicate": _request(400, "Two outputs answer the same call, or it was answered before."),
    "item_not_found": _request(
        404, "No item the caller may see has the id: of an `item_reference` (400 on WebSocket), of a conversation."
    ),
    "invalid_compaction": _request(
        400, "A `compaction` item looks like this server's, but was not made with its key."
    ),
    "model_not_found": _request(404, "No configured upstream has this model, or it is not open to the tenant."),
    "model_not_allowed": _request(
        403, "A model that was not named, the agent's or a fallback, is not open to the tenant."
    ),
    "counting_not_supported": _request(400, "The model's upstream cannot say how many tokens an input has."),
    "model_required": _request(400, "Neither the request nor its agent names a model, and there is no default."),
    "agent_not_found": _request(404, "Unknown agent, or another tenant's."),
    "response_not_found": CodeSpec(404, False, ("request", "extension"), "Unknown or foreign response id."),
    "conversation_not_found": CodeSpec(
        404, False, ("request", "extension"), "Unknown or foreign conversation id."
    ),
    "conversation_locked": _request(
        409, "A response that writes the conversation goes on; one turn at a time.", retryable=True
    ),
    # Steering: in `response.steer.failed`, and over HTTP.
    "steering_not_supported": _request(
        409,
        "A plain client that is still connected started this run, so only it may steer it; nobody steers a turn "
        "of a conversation.",
    ),
    "too_many_pending_steers": _request(429, "The run took all the steering messages it can.", retryable=True),
    "response_not_active": _request(409, "The run failed, was cancelled or is ending."),
    "successor_creation_failed": _request(503, "The run that should follow could not be started.", retryable=True),
    "idempotency_conflict": _request(409, "The idempotency key was used with another body."),
    "epoch_changed": CodeSpec(409, False, ("request", "extension"), "The cursor lies past a fork of the log."),
    "cursor_in_future": CodeSpec(400, False, ("request", "extension"), "The cursor is past the head of the log."),
    "cursor_expired": CodeSpec(410, False, ("request", "extension"), "Events after the cursor are gone."),
    # Held calls. In the notices of section 7 these count as `request`.
    "invalid_input": _request(400, "What was injected or steered with is malformed or does not fit."),
    "unknown_call": CodeSpec(400, False, ("request", "extension"), "No held call of this run has the id."),
    "already_resolved": CodeSpec(
        409, False, ("request", "extension"), "The call was answered before, by `winner`."
    ),
    "response_already_completed": CodeSpec(409, False, ("request", "extension"), "The run has ended."),
    "claim_held": CodeSpec(409, True, ("request", "extension"), "Another client works on the call."),
    "stale_fence": CodeSpec(409, False, ("request", "extension"), "The fence is not that of a claim you hold."),
    "not_eligible": CodeSpec(403, False, ("request", "extension"), "The call is for other clients to answer."),
    "not_found": _request(404, "No such path."),
    "method_not_allowed": _request(405, "The path does not take this method."),
    # Who asks.
    "authentication_required": CodeSpec(
        401, False, ("request", "extension"), "Nothing is answered here before credentials were shown."
    ),
    "invalid_api_key": CodeSpec(401, False, ("request", "extension"), "The API key is unknown or was revoked."),
    "invalid_token": CodeSpec(
        401, False, ("request", "extension"), "The signed token is forged, not for this server or not yet valid."
    ),
    "token_expired": CodeSpec(
        401, False, ("request", "extension"), "The token or key has run out; get a new one."
    ),
    "invalid_ticket": CodeSpec(
        401, False, ("request", "extension"), "The ticket is unknown, used, too old or from another origin."
    ),
    "identity_unavailable": CodeSpec(
        503, True, ("request", "extension"), "The keys that tokens are checked with could not be had."
    ),
    "forbidden": CodeSpec(403, False, ("request", "extension"), "The role of this key does not allow it."),
    "host_not_allowed": _request(403, "The Host header is not one this server answers to."),
    "origin_not_allowed": _request(403, "The Origin is neither this server's own nor an allowed one."),
    "forwarded_not_allowed": _request(403, "Forwarded requests need authentication or a trusted proxy."),
    # Extensions of the operator.
    "denied": _request(403, "A middleware of the server refused the run."),
    "middleware_timeout": _request(503, "A middleware of the server took too long.", retryable=True),
    "skill_unavailable": _request(503, "Nobody here executes the skill."),
    # How much.
    "quota_exceeded": CodeSpec(
        429,
        False,
        ("request", "extension"),
        "The tenant has used up a quota; `retry-after` says when it begins anew.",
    ),
    "budget_exceeded": _request(429, "A budget is spent; `retry-after` says when it begins anew."),
    "too_many_runs": _request(429, "As many runs of the tenant are going on as may at once.", retryable=True),
    "tenant_paused": _request(503, "An operator paused the tenant."),
    "emergency_stop": _request(503, "An administrator stopped all runs."),
    "tenant_not_found": CodeSpec(404, False, ("request", "extension"), "Unknown or foreign tenant."),
    # The extension.
    "hello_required": _extension(400, "The first extension command must be `antiphon:hello`."),
    "unknown_command": _extension(400, "This server does not know the extension command."),
    "unsupported_version": _extension(400, "The protocol version of the hello is not supported."),
    "invalid_command": _extension(400, "A field of the command is missing or of the wrong type."),
    "not_attached": _extension(404, "This connection has no such attachment."),
    "too_many_attachments": _extension(400, "The connection already holds all the attachments it may."),
    "too_many_feeds": _extension(400, "The connection already subscribes to all the tenants it may."),
    # The server itself.
    "server_draining": CodeSpec(
        503, True, ("request", "extension"), "The server is shutting down; try again elsewhere or later."
    ),
    "server_error": CodeSpec(500, True, ("request", "run"), "A fault of ours; the details are in the log only."),
    "server_lost": CodeSpec(500, True, ("run",), "The server that owned the run went away before the end."),
    "storage_unavailable": CodeSpec(
        503, True, ("request", "run", "extension"), "The store did not take or give the data."
    ),
    "owner_unavailable": CodeSpec(
        503, True, ("request", "extension"), "The node that ran the response is gone; another one takes over soon."
    ),
    # Upstreams.
    "upstream_unavailable": CodeSpec(503, True, ("run",), "The upstream could not be reached or answered 5xx."),
    "upstream_error": CodeSpec(
        502, True, ("run",), "The upstream refused or broke off without a code of its own."
    ),
    "upstream_timeout": CodeSpec(504, True, ("run",), "The upstream did not answer in time."),
}

INCOMPLETE_REASONS: dict[str, str] = {
    "steered": "The run was cut short because somebody said more; another run follows.",
    "tool_deadline": "No client answered a held call in time, and the create had `on_expiry: cancel`.",
    "cancelled": "A client cancelled the run; `response.status` is `cancelled`.",
    "max_tool_rounds": "The model still called tools on the last allowed round; the calls were made.",
    "loop_detected": "The model gave the same output too many times in this conversation.",
    "budget_exceeded": "A budget was used up while the run went on; what it made so far is kept.",
    "quota_exceeded": "The tenant's tokens of the month were used up while the run went on.",
}
"""Our values of `response.incomplete_details.reason`, beside those an upstream gives."""
