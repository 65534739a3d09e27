-- Reads a job's record as one.
-- KEYS[1] {s:<tag>}:job:<job>  hash
-- Replies: exists tenant session state attempt node token deadline code | unknown
-- Slot: {s:<tag>}. Clock: none.
local r = redis.call('HMGET', KEYS[1], 'tenant', 'session', 'state', 'attempt', 'node', 'token',
  'deadline', 'code')
if not r[1] then
  return {'unknown'}
end
return {'exists', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}
