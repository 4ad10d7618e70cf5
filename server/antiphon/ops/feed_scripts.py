"""What Redis executes for the lifecycle feed: Lua, so that numbering, keeping and publishing are one step."""

from __future__ import annotations

from antiphon.journal.redis.scripts import Script

APPEND = Script("""
-- KEYS: stream, position, then the run key of each entry.
-- ARGV: token, begin anew (0 or 1), epoch and rev this node saw last, channel, entries to keep, expiry in ms;
--       then for each entry: fence, n, event, expiry of its run key in ms, JSON without its first two fields.
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
for i = 3, #KEYS do
  local at = 8 + (i - 3) * 5
  local fence, n = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local run = newest[KEYS[i]]
  if not run then
    local stored = redis.call('HMGET', KEYS[i], 'fence', 'n')
    run = {tonumber(stored[1]) or 0, tonumber(stored[2]) or 0}
  end
  if fence >= run[1] and n > run[2] then
    newest[KEYS[i]] = {fence, n}
    rev = rev + 1
    local id = string.format('%.0f', rev)
    taken[#taken + 1] = {KEYS[i], at, id .. '-0', '{"epoch":"' .. epoch .. '","rev":' .. id .. ',' .. ARGV[at + 4]}
  end
end

if lost then
  redis.call('DEL', KEYS[1])
end
-- The first write is refused if any is (out of memory, a key of another type), and then no rev was given away.
for _, entry in ipairs(taken) do
  local key, at = entry[1], entry[2]
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[6], entry[3], 'entry', entry[4])
  redis.call('HSET', key, 'fence', ARGV[at], 'n', ARGV[at + 1], 'event', ARGV[at + 2])
  redis.call('PEXPIRE', key, ARGV[at + 3])
end
redis.call('HSET', KEYS[2], 'epoch', epoch, 'rev', string.format('%.0f', rev))
redis.call('PEXPIRE', KEYS[2], ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
-- Who hears of an entry finds it in the stream.
for _, entry in ipairs(taken) do
  redis.call('PUBLISH', ARGV[5], entry[4])
end
return {epoch, rev}
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
