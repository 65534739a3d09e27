-- Extends a live running lease.
-- KEYS[1] {n:<node>}:running  zset  token -> expiry ms
-- ARGV[1] token
-- ARGV[2] lease, ms
-- Replies: renewed until | lost
-- Slot: {n:<node>}. Clock: TIME.
local running, token, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local runs = redis.call('ZSCORE', running, token)
if not runs or tonumber(runs) <= now then
  return {'lost'}
end
redis.call('ZADD', running, string.format('%d', now + lease), token)
return {'renewed', now + lease}
