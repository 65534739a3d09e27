-- Reads a job's record as one.
-- KEYS[1] {s:<tag>}:job:<job>  hash  state current facts end
-- Replies: exists state current facts end | unknown
-- Slot: {s:<tag>}. Clock: none.
local r = redis.call('HMGET', KEYS[1], 'state', 'current', 'facts', 'end')
if not r[1] then
  return {'unknown'}
end
return {'exists', r[1], r[2], r[3], r[4]}
