-- Puts a mark on the list that all instances read.
-- KEYS[1] marks  zset  mark -> until ms
-- ARGV[1] mark
-- ARGV[2] how long it stays, ms
-- ARGV[3] marks at most
-- Replies: marked | full
-- Slot: marks. Clock: TIME.
local marks, mark, keep, most = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('ZSCORE', marks, mark)
if not known and redis.call('ZCOUNT', marks, now + 1, '+inf') >= most then
  return {'full'}
end
redis.call('ZREMRANGEBYSCORE', marks, '-inf', now)
redis.call('ZADD', marks, 'GT', now + keep, mark)
local last = redis.call('ZRANGE', marks, -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', marks, math.ceil(tonumber(last[2])))
return {'marked'}
