-- Counts the slots that are taken.
-- KEYS[1] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- Replies: usage reserved running
-- Slot: {n:<node>}. Clock: TIME.
local leases = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local live = redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('(-%d9', now), 'WITHSCORES')
local reserved, running = 0, 0
for i = 2, #live, 2 do
  if -live[i] % 10 == 5 then
    running = running + 1
  elseif -live[i] % 10 == 0 then
    reserved = reserved + 1
  end
end
return {'usage', reserved, running}
