-- Gives a slot back and spends its token, also one that was never seen.
-- KEYS[1] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] token
-- Replies: freed | nothing
-- Slot: {n:<node>}. Clock: TIME.
local leases, token = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local spent = string.format('-%d9', time[1] * 1000 + math.floor(time[2] / 1000))
-- Only what is live ends later than now, and so stands before it.
if redis.call('ZADD', leases, 'XX', 'GT', 'CH', spent, token) == 1 then
  return 'freed'
end
redis.call('ZADD', leases, spent, token)
return 'nothing'
