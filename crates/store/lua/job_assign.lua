-- Makes an assignment the current one.
-- KEYS[1] {s:<tag>}:job:<job>  hash
-- ARGV[1] attempt
-- ARGV[2] node
-- ARGV[3] token
-- ARGV[4] attempts allowed
-- Replies: assigned | stale attempt | exhausted | ended state | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, attempt = KEYS[1], tonumber(ARGV[1])
local r = redis.call('HMGET', job, 'state', 'attempt', 'token')
local state, current = r[1], tonumber(r[2] or 0)
if not state then
  return {'unknown'}
end
if state == 'DONE' or state == 'FAILED' or state == 'CANCELLED' then
  return {'ended', state}
end
if r[3] == ARGV[3] then
  return {'assigned'}
end
if attempt <= current then
  return {'stale', current}
end
if attempt > tonumber(ARGV[4]) then
  return {'exhausted'}
end
redis.call('HSET', job, 'state', 'DISPATCHED', 'attempt', ARGV[1], 'node', ARGV[2], 'token', ARGV[3])
return {'assigned'}
