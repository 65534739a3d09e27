-- Makes an assignment the current one.
-- KEYS[1] {s:<tag>}:job:<job>  hash  state current facts end
-- ARGV[1] attempt
-- ARGV[2] assignment, as attempt node token
-- ARGV[3] attempts allowed
-- Replies: assigned | stale attempt | exhausted | ended state | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, attempt = KEYS[1], tonumber(ARGV[1])
local r = redis.call('HMGET', job, 'state', 'current')
local state, current = r[1], r[2]
if not state then
  return {'unknown'}
end
if state == 'DONE' or state == 'FAILED' or state == 'CANCELLED' then
  return {'ended', state}
end
if current == ARGV[2] then
  return {'assigned'}
end
local reached = tonumber(string.match(current, '^%d+'))
if attempt <= reached then
  return {'stale', reached}
end
if attempt > tonumber(ARGV[3]) then
  return {'exhausted'}
end
redis.call('HSET', job, 'state', 'DISPATCHED', 'current', ARGV[2])
return {'assigned'}
