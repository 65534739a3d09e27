-- Reads what is known of a node, and how long ago that was written.
-- KEYS[1] {n:<node>}:reputation  hash  known -> JSON, at -> ms
-- Replies: known age-ms json | unknown
-- Slot: {n:<node>}. Clock: TIME.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', KEYS[1], 'known', 'at')
if not r[1] then
  return {'unknown'}
end
return {'known', math.max(now - tonumber(r[2]), 0), r[1]}
