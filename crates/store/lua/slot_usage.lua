-- Counts the slots that are taken.
-- KEYS[1] {n:<node>}:reserved  zset
-- KEYS[2] {n:<node>}:running   zset
-- Replies: usage reserved running
-- Slot: {n:<node>}. Clock: TIME.
local reserved, running = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {'usage', redis.call('ZCOUNT', reserved, '(' .. now, '4e15'),
  redis.call('ZCOUNT', running, '(' .. now, '4e15')}
