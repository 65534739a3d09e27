-- Lists watched jobs whose deadline passed, oldest first.
-- KEYS[1] deadlines:{d<k>}  zset  job -> deadline ms
-- ARGV[1] how many at most
-- Replies: due jobs
-- Slot: {d<k>}. Clock: TIME.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {'due', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])}
