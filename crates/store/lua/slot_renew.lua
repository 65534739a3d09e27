-- Extends a live running lease.
-- KEYS[1] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] token
-- ARGV[2] lease, ms
-- Replies: renewed until | lost
-- Slot: {n:<node>}. Clock: TIME.
local leases, token, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local score = redis.call('ZSCORE', leases, token)
if not score or -score <= now * 10 + 9 or -score % 10 ~= 5 then
  return 'lost'
end
local till = string.format('%d', now + lease)
redis.call('ZADD', leases, '-' .. till .. '5', token)
return 'renewed ' .. till
