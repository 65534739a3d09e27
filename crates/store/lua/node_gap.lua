-- Remembers for a while that a node misses a model.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:gaps    zset  model -> until ms
-- ARGV[1] model
-- ARGV[2] lasting, ms
-- ARGV[3] gaps kept per node
-- Replies: noted | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, gaps, model = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = redis.call('HGET', record, 'gaps_until')
if not latest then
  return {'unknown'}
end
local till = now + tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', gaps, '-inf', now)
redis.call('ZADD', gaps, 'GT', till, model)
redis.call('ZREMRANGEBYRANK', gaps, 0, -1 - tonumber(ARGV[3]))
if till > tonumber(latest) then
  redis.call('HSET', record, 'gaps_until', till)
end
return {'noted'}
