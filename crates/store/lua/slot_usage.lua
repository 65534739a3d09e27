-- Counts the slots that are taken.
-- KEYS[1] {n:<node>}:leases  zset  token -> end ms and a digit: 0 reserved, 5 running, 9 spent
-- Replies: usage reserved running
-- Slot: {n:<node>}. Clock: TIME.
local leases = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local live = redis.call('ZRANGEBYSCORE', leases, string.format('(%d9', now), '+inf', 'WITHSCORES')
local count = {[0] = 0, [5] = 0, [9] = 0}
for i = 2, #live, 2 do
  count[live[i] % 10] = count[live[i] % 10] + 1
end
return {'usage', count[0], count[5]}
