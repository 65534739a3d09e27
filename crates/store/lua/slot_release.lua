-- Gives a slot back and spends its token, also one that was never seen.
-- KEYS[1] {n:<node>}:reserved  zset  token -> expiry ms; spent tokens -> 9e15 minus the ms of their end
-- KEYS[2] {n:<node>}:running   zset  token -> expiry ms
-- ARGV[1] token
-- Replies: freed | nothing
-- Slot: {n:<node>}. Clock: TIME.
local reserved, running, token = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till = tonumber(redis.call('ZSCORE', running, token) or nil)
if till then
  -- Its commit has marked it as spent.
  redis.call('ZREM', running, token)
else
  till = tonumber(redis.call('ZSCORE', reserved, token) or nil)
  redis.call('ZADD', reserved, string.format('%d', 9e15 - now), token)
end
if till and till > now and till < 4e15 then
  return 'freed'
end
return 'nothing'
