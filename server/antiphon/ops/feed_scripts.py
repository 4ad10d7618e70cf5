"""What Redis executes for the lifecycle feed: Lua, so that numbering, keeping and publishing are one step."""

from __future__ import annotations

from antiphon.journal.redis.scripts import Script

APPEND = Script("""
-- KEYS: stream, position, rows, live, ended, then the run key of each entry.
-- ARGV: token, begin anew (0 or 1), epoch and rev this node saw last, channel, entries to keep, expiry in ms, now
--       in ms, how long ended runs are shown in ms; then for each entry: run id, fence, n, event, whether it is
--       the last one of its run (0 or 1), expiry of its run key in ms, JSON without its first two fields.
-- Gives: epoch, rev of the newest entry.
local known = redis.call('HMGET', KEYS[2], 'epoch', 'rev')
local epoch, rev = known[1], tonumber(known[2])
local lost = not epoch or not rev
  or (ARGV[2] == '1' and epoch ~= ARGV[1])
  or (epoch == ARGV[3] and rev < tonumber(ARGV[4]))
if lost then
  epoch, rev = ARGV[1], 0
end

local taken, newest = {}, {}
for i = 6, #KEYS do
  local at = 10 + (i - 6) * 7
  local fence, n = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local run = newest[KEYS[i]]
  if not run then
    local stored = redis.call('HMGET', KEYS[i], 'fence', 'n')
    run = {tonumber(stored[1]) or 0, tonumber(stored[2]) or 0}
  end
  if fence >= run[1] and n > run[2] then
    newest[KEYS[i]] = {fence, n}
    rev = rev + 1
    local id = string.format('%.0f', rev)
    taken[#taken + 1] = {KEYS[i], at, id .. '-0', '{"epoch":"' .. epoch .. '","rev":' .. id .. ',' .. ARGV[at + 6]}
  end
end

if lost then
  redis.call('DEL', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
end
-- The first write is refused if any is (out of memory, a key of another type), and then no rev was given away.
for _, entry in ipairs(taken) do
  local key, at = entry[1], entry[2]
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[6], entry[3], 'entry', entry[4])
  redis.call('HSET', key, 'fence', ARGV[at + 1], 'n', ARGV[at + 2], 'event', ARGV[at + 3])
  redis.call('PEXPIRE', key, ARGV[at + 5])
  redis.call('HSET', KEYS[3], ARGV[at], entry[4])
  local over = ARGV[at + 4] == '1'
  redis.call('ZREM', KEYS[over and 4 or 5], ARGV[at])
  redis.call('ZADD', KEYS[over and 5 or 4], ARGV[8], ARGV[at])
end
local gone = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', ARGV[8] - ARGV[9], 'LIMIT', 0, 500)
if #gone > 0 then
  redis.call('HDEL', KEYS[3], unpack(gone))
  redis.call('ZREM', KEYS[5], unpack(gone))
end
redis.call('HSET', KEYS[2], 'epoch', epoch, 'rev', string.format('%.0f', rev))
for i = 1, 5 do
  redis.call('PEXPIRE', KEYS[i], ARGV[7])
end
-- Who hears of an entry finds it in the stream.
for _, entry in ipairs(taken) do
  redis.call('PUBLISH', ARGV[5], entry[4])
end
return {epoch, rev}
""")

SNAPSHOT = Script("""
-- KEYS: stream, position, rows, live, ended. ARGV: token, expiry in ms, ended before this time in ms: not shown.
-- Gives: epoch, rev of the newest entry, the newest entry of each run that is shown.
local known = redis.call('HMGET', KEYS[2], 'epoch', 'rev')
if not known[1] or not known[2] then
  redis.call('DEL', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
  redis.call('HSET', KEYS[2], 'epoch', ARGV[1], 'rev', '0')
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  return {ARGV[1], 0, {}}
end
local gone = {}
for _, run in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', ARGV[3])) do
  gone[run] = true
end
local rows, all = {}, redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  if not gone[all[i]] then rows[#rows + 1] = all[i + 1] end
end
return {known[1], tonumber(known[2]), rows}
""")

TAKE = Script("""
-- KEYS: run key. ARGV: fence of the adopter, expiry in ms. Gives: n, event of the newest entry of the run.
local known = redis.call('HMGET', KEYS[1], 'fence', 'n', 'event')
if (tonumber(known[1]) or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'fence', ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {tonumber(known[2]) or 0, known[3] or ''}
""")
