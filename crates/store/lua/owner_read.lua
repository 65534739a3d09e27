-- Reads who owns a session.
-- KEYS[1] {s:<tag>}:<tenant>:<session>:owner  hash
-- Replies: owner instance epoch until | nobody
-- Slot: {s:<tag>}. Clock: TIME.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', KEYS[1], 'instance', 'epoch', 'until')
if not r[1] or tonumber(r[3]) <= now then
  return {'nobody'}
end
return {'owner', r[1], r[2], r[3]}
