-- Has any instance look after a job's deadline.
-- KEYS[1] deadlines:{d<k>}  zset  job -> deadline ms
-- ARGV[1] job
-- ARGV[2] from now to the deadline, ms
-- Replies: watched
-- Slot: {d<k>}. Clock: TIME.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return {'watched'}
