-- Notes that a node is alive, and tidies what its leases left behind.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] epoch of the connection
-- ARGV[2] version of the profile that the owner holds
-- ARGV[3] slots open to jobs
-- ARGV[4] health, a word
-- ARGV[5] overloaded: 1 | 0
-- ARGV[6] fresh for, ms
-- ARGV[7] how long spent and lapsed tokens are remembered, ms
-- ARGV[8] how many of them are forgotten at once, or half of them if that is more: so they stay bounded
--         however many come in between
-- Replies: kept changed confirmed | put_again | superseded epoch
-- Slot: {n:<node>}. Clock: TIME.
local record, leases = KEYS[1], KEYS[2]
local epoch, version = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was = redis.call('HMGET', record, 'epoch', 'version', 'max', 'health', 'overloaded', 'reign',
  'hold_until')
local current = tonumber(was[1] or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch or was[2] ~= version then
  return {'put_again'}
end
local open = ARGV[4] == 'ready'
local fresh_until = string.format('%d', now + tonumber(ARGV[6]))
local gate = ''
if open and was[6] ~= '' and tonumber(was[7]) <= now then
  gate = was[6] .. ' ' .. version .. ' ' .. fresh_until .. string.format('%03d', ARGV[3])
end
redis.call('HSET', record, 'max', ARGV[3], 'health', ARGV[4], 'overloaded', ARGV[5],
  'open', open and '1' or '0', 'fresh_until', fresh_until, 'gate', gate)
-- What ended first stands last.
local old = redis.call('ZCOUNT', leases, string.format('-%d9', now - tonumber(ARGV[7])), '+inf')
if old > 0 then
  local most = math.max(tonumber(ARGV[8]), math.ceil(old / 2))
  redis.call('ZREMRANGEBYRANK', leases, -math.min(old, most), -1)
end
local changed = was[3] ~= ARGV[3] or was[4] ~= ARGV[4] or was[5] ~= ARGV[5]
local confirmed = was[6] ~= '' and
  string.find(redis.call('INFO', 'replication'), was[6], 1, true) ~= nil
return {'kept', changed and 1 or 0, confirmed and 1 or 0}
