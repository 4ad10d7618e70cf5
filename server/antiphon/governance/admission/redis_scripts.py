"""What Redis executes for admission: Lua, so that a reservation takes everything or nothing, on whichever node.

Per tenant, on one shard: `counters` (hash; also a flag for each month whose counters were made from rows), `slots`
(sorted set: runs that are going on, by the time they were admitted), `pending` (sorted set: reservations that are
not committed, by the time they run out), `reserved` (hash: the counters those took), `held` (string: revision and
0 or 1, whether the tenant is paused), and for each run a hash: `state` (r reserved, c committed, x over), `try`
(which reservation it was) and the steps that were charged. Times are in ms, from the clocks of the nodes.
"""

from __future__ import annotations

from antiphon.journal.redis.scripts import Script

HELD = Script("""
-- KEYS held. Gives 1 if nobody may start anything.
local held = redis.call('GET', KEYS[1])
return held and string.sub(held, -1) == '1' and 1 or 0
""")

SET_HELD = Script("""
-- KEYS held. ARGV revision, 0 or 1, ttl. An older revision changes nothing.
local known = redis.call('GET', KEYS[1])
if known and tonumber(string.match(known, '^%d+')) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return 1
""")

RESERVE = Script("""
-- KEYS counters, slots, pending, reserved, run, held. ARGV run id, now, when the reservation runs out, ttl
-- of counters, ttl of runs, flag, slots ('': any number), which try, number of checks, counter and limit of each,
-- then the counters that count the run. Gives 'ok', 'held', 'count' (make the counters first), 'slots', or the
-- index of the check that fails, from 0 on.
local id, now, checks = ARGV[1], ARGV[2], tonumber(ARGV[9])
local held = redis.call('GET', KEYS[6])
if held and string.sub(held, -1) == '1' then return 'held' end
if redis.call('HEXISTS', KEYS[1], ARGV[6]) == 0 then return 'count' end
local known = redis.call('HMGET', KEYS[5], 'state', 'try')
-- Asked twice, or given up before it was asked.
if known[1] and (known[1] ~= 'x' or known[2] == ARGV[8]) then return 'ok' end
for _, late in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
  for counter in string.gmatch(redis.call('HGET', KEYS[4], late) or '', '[^\\n]+') do
    if redis.call('HEXISTS', KEYS[1], counter) == 1 then redis.call('HINCRBY', KEYS[1], counter, -1) end
  end
  redis.call('HDEL', KEYS[4], late)
  redis.call('ZREM', KEYS[3], late)
  redis.call('ZREM', KEYS[2], late)
end
for i = 0, checks - 1 do
  local used = tonumber(redis.call('HGET', KEYS[1], ARGV[10 + 2 * i]) or 0)
  if used >= tonumber(ARGV[11 + 2 * i]) then return i end
end
if ARGV[7] ~= '' and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[7]) then return 'slots' end
local first = 10 + 2 * checks
for i = first, #ARGV do redis.call('HINCRBY', KEYS[1], ARGV[i], 1) end
redis.call('HSET', KEYS[4], id, table.concat(ARGV, '\\n', first))
redis.call('ZADD', KEYS[3], ARGV[3], id)
redis.call('ZADD', KEYS[2], now, id)
redis.call('HSET', KEYS[5], 'state', 'r', 'try', ARGV[8])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
for i = 2, 5 do redis.call('PEXPIRE', KEYS[i], ARGV[5]) end
return 'ok'
""")

COUNT = Script("""
-- KEYS counters. ARGV flag, ttl, Unix seconds before which counters are forgotten, then counter and value of each.
-- What is there already is newer than the rows.
for _, counter in ipairs(redis.call('HKEYS', KEYS[1])) do
  local start = string.match(counter, ':(%d+)$') or string.match(counter, ':(%d+):%a+$')
  if start and tonumber(start) < tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], counter) end
end
for i = 4, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

COMMIT = Script("""
-- KEYS counters, slots, pending, reserved, run. ARGV run id, now, ttl of runs, then the counters.
local id = ARGV[1]
if redis.call('HGET', KEYS[5], 'state') ~= 'r' then return 0 end
if redis.call('ZREM', KEYS[3], id) == 0 then
  -- It had run out: the run goes on all the same, and counts.
  for i = 4, #ARGV do redis.call('HINCRBY', KEYS[1], ARGV[i], 1) end
  redis.call('ZADD', KEYS[2], ARGV[2], id)
end
redis.call('HDEL', KEYS[4], id)
redis.call('HSET', KEYS[5], 'state', 'c')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PEXPIRE', KEYS[5], ARGV[3])
return 1
""")

GIVE_BACK = Script("""
-- KEYS counters, slots, pending, reserved, run. ARGV run id, ttl of runs that are over, which try, then the
-- counters.
local id = ARGV[1]
local state = redis.call('HGET', KEYS[5], 'state')
local taken = state == 'c' or (state == 'r' and redis.call('ZREM', KEYS[3], id) == 1)
if taken then
  for i = 4, #ARGV do
    if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('HINCRBY', KEYS[1], ARGV[i], -1) end
  end
end
redis.call('HDEL', KEYS[4], id)
redis.call('ZREM', KEYS[2], id)
redis.call('HSET', KEYS[5], 'state', 'x', 'try', ARGV[3])
redis.call('PEXPIRE', KEYS[5], ARGV[2])
return 1
""")

END = Script("""
-- KEYS slots, run. ARGV run id, ttl of runs that are over.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'state', 'x')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
""")

HOLD = Script("""
-- KEYS slots. ARGV now, ttl, then run ids.
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

SPEND = Script("""
-- KEYS counters, run. ARGV step, flag, ttl of counters, ttl of runs, then counter and amount of each. Gives what
-- each counter was before; nothing if the step was charged, or if the counters are yet to be made from the rows.
if redis.call('HSETNX', KEYS[2], 'step:' .. ARGV[1], 1) == 0 then return {} end
if redis.call('HGET', KEYS[2], 'state') ~= 'x' then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return {} end
local before = {}
for i = 5, #ARGV, 2 do
  before[#before + 1] = redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) - tonumber(ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return before
""")
