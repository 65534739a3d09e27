-- Notes that a node is alive, and tidies what its leases left behind.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset
-- KEYS[3] {n:<node>}:running   zset
-- ARGV[1] epoch of the connection
-- ARGV[2] version of the profile that the owner holds
-- ARGV[3] slots open to jobs
-- ARGV[4] health, a word
-- ARGV[5] overloaded: 1 | 0
-- ARGV[6] fresh for, ms
-- ARGV[7] how long spent and lapsed tokens are remembered, ms
-- ARGV[8] how many of them are forgotten at once
-- Replies: kept changed confirmed | put_again | superseded epoch
-- Slot: {n:<node>}. Clock: TIME.
local record, reserved, running = KEYS[1], KEYS[2], KEYS[3]
local epoch, version = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was = redis.call('HMGET', record, 'epoch', 'version', 'max', 'health', 'overloaded', 'reign')
local current = tonumber(was[1] or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch or was[2] ~= version then
  return {'put_again'}
end
local open = (ARGV[4] == 'ready' and ARGV[5] == '0') and '1' or '0'
redis.call('HSET', record, 'max', ARGV[3], 'health', ARGV[4], 'overloaded', ARGV[5], 'open', open,
  'fresh_until', now + tonumber(ARGV[6]))
-- Spent tokens stand behind all leases, the oldest last; lapsed leases stand first.
local old = now - tonumber(ARGV[7])
local spent = redis.call('ZCOUNT', reserved, 9e15 - old, '+inf')
if spent > 0 then
  redis.call('ZREMRANGEBYRANK', reserved, -math.min(spent, tonumber(ARGV[8])), -1)
end
redis.call('ZREMRANGEBYSCORE', reserved, '-inf', old)
redis.call('ZREMRANGEBYSCORE', running, '-inf', old)
local changed = was[3] ~= ARGV[3] or was[4] ~= ARGV[4] or was[5] ~= ARGV[5]
local confirmed = was[6] ~= '' and
  string.find(redis.call('INFO', 'replication'), was[6], 1, true) ~= nil
return {'kept', changed and 1 or 0, confirmed and 1 or 0}
