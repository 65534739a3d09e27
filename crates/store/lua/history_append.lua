-- Appends a point to a series, unless the series has one of the present step.
-- KEYS[1] history:<series>  zset  step and point -> step
-- ARGV[1] length of a step, ms
-- ARGV[2] point
-- ARGV[3] points at most
-- ARGV[4] how long the series stays after its last point, ms
-- Replies: appended | known
-- Slot: history:<series>. Clock: TIME.
local series, most = KEYS[1], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local step = math.floor(now / tonumber(ARGV[1]))
if redis.call('ZCOUNT', series, step, '+inf') > 0 then
  return {'known'}
end
redis.call('ZADD', series, step, string.format('%.0f', step) .. ' ' .. ARGV[2])
redis.call('ZREMRANGEBYRANK', series, 0, -most - 1)
redis.call('PEXPIRE', series, ARGV[4])
return {'appended'}
