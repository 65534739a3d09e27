-- Reads a job's record and when it will be forgotten.
-- KEYS[1] {s:<tag>}:job:<job>  string  current, facts, end: a line each
-- Replies: record until text | unknown
-- Slot: {s:<tag>}. Clock: TIME.
local job = KEYS[1]
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- What is left counts from the moment of the question: that moment must be one millisecond.
local before, left
repeat
  before = now()
  left = redis.call('PTTL', job)
until before == now()
local record = redis.call('GET', job)
if not record or left < 0 then
  return {'unknown'}
end
return {'record', before + left, record}
