-- Reads a node's record as one.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:gaps    zset  model -> until ms
-- KEYS[3] {n:<node>}:order   string  an administrator's order, a word; serve if absent
-- Replies: record now epoch owner profile version max health overloaded fresh_until order gaps | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, gaps, order = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', record, 'epoch', 'owner', 'profile', 'version', 'max', 'health',
  'overloaded', 'fresh_until')
if not r[1] then
  return {'unknown'}
end
local missing = redis.call('ZRANGEBYSCORE', gaps, '(' .. now, '+inf', 'WITHSCORES')
return {'record', now, r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8],
  redis.call('GET', order) or 'serve', missing}
