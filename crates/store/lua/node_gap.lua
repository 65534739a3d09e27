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
if not redis.call('HGET', record, 'epoch') then
  return {'unknown'}
end
redis.call('ZREMRANGEBYSCORE', gaps, '-inf', now)
redis.call('ZADD', gaps, 'GT', now + tonumber(ARGV[2]), model)
redis.call('ZREMRANGEBYRANK', gaps, 0, -1 - tonumber(ARGV[3]))
return {'noted'}
