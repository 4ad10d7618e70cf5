"""What Redis checks and does in one step: the Lua text of every write to a run's keys.

A run's keys have one hash tag, so that they live on one shard. `meta` says who owns the run (`owner`, `fence`),
where its log stands (`head`, `first`) and what it is; `log` is the stream. A higher fence always wins: after a
failover the meta may be older than the owner. Numbers of the log start at 0, ids of a stream at 1: the entry
`<n + 1>-0` begins with n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import redis.asyncio
from redis.exceptions import NoScriptError

from antiphon.errors import BusError
from antiphon.journal.redis.exchange import Command, ask_all, exchange_fast


class Script:
    """One Lua script and the name Redis knows it by."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


APPEND = Script("""
-- KEYS meta, log, hints. ARGV node, fence, mode, first, last, payload, ttl in ms (0: as it was), publish command,
-- more, hint bytes, then pairs for meta. mode: 'new' (there may be none yet), 'on' (there must be one), 'over'
-- (written again from first). Gives {'ok', bytes of the log}, {'lost', owner, fence}, {'head', head}, {'gone'} or
-- {'ended'}.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'head', 'first', 'ended', 'bytes')
local fence, mode, first, payload = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[6]
local there = known[2]
local streamed, size = false, 0
if there then
  local theirs = tonumber(there)
  if theirs > fence or (theirs == fence and known[1] ~= ARGV[1]) then return {'lost', known[1], theirs} end
  if mode ~= 'over' then
    if known[5] == '1' then return {'ended'} end
    local head = tonumber(known[3])
    streamed, size = tonumber(known[4]) <= head, tonumber(known[6]) or 0
    if streamed and payload == '' and redis.call('EXISTS', KEYS[2]) == 0 then return {'gone'} end
    if head ~= first - 1 then return {'head', head} end
  end
elseif mode == 'on' then
  return {'gone'}
end
if mode == 'over' or not there then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'first', ARGV[4])
end
if payload ~= '' then
  local id = string.format('%d-0', first + 1)
  if not streamed then
    redis.call('XADD', KEYS[2], id, 'p', payload)
  elseif not redis.call('XADD', KEYS[2], 'NOMKSTREAM', id, 'p', payload) then
    return {'gone'}
  end
end
size = size + #payload
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', ARGV[2], 'head', ARGV[5], 'bytes', size, unpack(ARGV, 11))
if ARGV[7] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
end
if payload ~= '' or ARGV[9] == '1' then
  local hint = ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[9] .. '\\n'
  if #payload <= tonumber(ARGV[10]) then hint = hint .. payload end
  redis.call(ARGV[8], KEYS[3], hint)
end
return {'ok', size}
""")

ADOPT = Script("""
-- KEYS meta, hints. ARGV owner and fence as they were seen, node, ttl in ms, publish command, hint, a fence to be
-- above, then pairs for a meta that is lost. Gives the new fence, 0 if another node was faster.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if known[2] then
  if known[1] ~= ARGV[1] or tonumber(known[2]) ~= tonumber(ARGV[2]) then return 0 end
else
  redis.call('HSET', KEYS[1], unpack(ARGV, 8))
end
local fence = math.max(tonumber(ARGV[2]), tonumber(ARGV[7])) + 1
redis.call('HSET', KEYS[1], 'owner', ARGV[3], 'fence', fence)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call(ARGV[5], KEYS[2], ARGV[6])
return fence
""")

RETAKE = Script("""
-- KEYS meta. ARGV node, fence. Gives {'ok', new fence}, {'lost', owner, fence} or {'gone'}.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if not known[2] then return {'gone'} end
local theirs, mine = tonumber(known[2]), tonumber(ARGV[2])
if known[1] ~= ARGV[1] and theirs >= mine then return {'lost', known[1], theirs} end
local fence = math.max(theirs, mine) + 1
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', fence)
return {'ok', fence}
""")

RELEASE = Script("""
-- KEYS meta, hints. ARGV node, fence, publish command, hint. Gives 1 if nobody owns the run now, 0 if another node
-- does.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if not known[2] or known[1] ~= ARGV[1] or tonumber(known[2]) ~= tonumber(ARGV[2]) then
  return known[1] == '' and 1 or 0
end
redis.call('HSET', KEYS[1], 'owner', '')
redis.call(ARGV[3], KEYS[2], ARGV[4])
return 1
""")

TRIM = Script("""
-- KEYS meta, log. ARGV node, fence, lowest id that stays, bytes that go, lowest number that can be read ('': as it
-- was). Gives the bytes that are left, -1 if the run is not this node's.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if known[1] ~= ARGV[1] or tonumber(known[2]) ~= tonumber(ARGV[2]) then return -1 end
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[3])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'first', ARGV[5]) end
return redis.call('HINCRBY', KEYS[1], 'bytes', -tonumber(ARGV[4]))
""")

CONCLUDE = Script("""
-- KEYS meta, log, hints. ARGV node, fence, number, terminal, ttl in ms, publish command, then pairs for meta.
-- Gives 1, or 0 if the run is not this node's. Events missing before the terminal are lost: its number counts.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'head', 'ended')
if known[1] ~= ARGV[1] or tonumber(known[2]) ~= tonumber(ARGV[2]) then return 0 end
if known[4] ~= '1' then
  if tonumber(ARGV[3]) > tonumber(known[3]) then
    redis.call('XADD', KEYS[2], string.format('%d-0', tonumber(ARGV[3]) + 1), 'p', ARGV[4])
    redis.call('HSET', KEYS[1], 'head', ARGV[3])
  end
  redis.call('HSET', KEYS[1], 'ended', 1, unpack(ARGV, 7))
  redis.call(ARGV[6], KEYS[3], ARGV[3] .. ' ' .. ARGV[3] .. ' 1\\n')
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 1
""")

ERASE = Script("""
-- KEYS meta, log. ARGV node, fence.
local known = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if known[1] == ARGV[1] and known[2] == ARGV[2] then redis.call('DEL', KEYS[1], KEYS[2]) end
return 1
""")

Call = tuple[Script, Sequence[str], Sequence[Any]]
"""A script, its keys, its arguments."""


async def run_script(
    commands: redis.asyncio.Redis, script: Script, keys: Sequence[str], args: Sequence[Any]
) -> Any:
    """Run one script. Raises BusError."""
    reply = (await run_scripts(commands, [(script, keys, args)]))[0]
    if isinstance(reply, Exception):
        raise BusError("Redis refused a write to the journal.") from reply
    return reply


async def run_scripts(
    commands: redis.asyncio.Redis, calls: Sequence[Call], before: Sequence[Command] = ()
) -> list[Any]:
    """Run scripts in one exchange, behind other commands; replies of the scripts, a refusal as its exception.

    Raises BusError if Redis did not answer, or refused one of the other commands. Some may have been done then.
    """
    replies = await exchange_fast(commands, [*before, *(_command(call) for call in calls)])
    for reply in replies[: len(before)]:
        if isinstance(reply, Exception):
            raise BusError("Redis refused a command.") from reply
    replies = replies[len(before) :]
    missing = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if missing:
        # A server that was started anew, or one that was promoted, does not know them yet.
        scripts = {calls[index][0].sha: calls[index][0] for index in missing}
        await ask_all(commands, [("SCRIPT LOAD", script.text) for script in scripts.values()])
        again = await exchange_fast(commands, [_command(calls[index]) for index in missing])
        for index, reply in zip(missing, again, strict=True):
            replies[index] = reply
    return replies


def _command(call: Call) -> Command:
    script, keys, args = call
    return ("EVALSHA", script.sha, len(keys), *keys, *args)
