-- Makes a reserved slot a running one while its lease is live.
-- KEYS[1] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] token
-- ARGV[2] lease, ms
-- Replies: committed until | already until | over
-- Slot: {n:<node>}. Clock: TIME. What is over is for slot_regain to decide.
local leases, token, lease = KEYS[1], ARGV[1], ARGV[2] + 0
if lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local score = redis.call('ZSCORE', leases, token)
local held = score and -score or 0
local kind = held % 10
if held <= now * 10 + 9 or kind == 9 then
  return 'over'
end
local till = string.format('%d', now + lease)
redis.call('ZADD', leases, '-' .. till .. '5', token)
if kind == 5 then
  return 'already ' .. till
end
return 'committed ' .. till
