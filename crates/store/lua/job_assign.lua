-- Makes an assignment the current one.
-- KEYS[1] {s:<tag>}:job:<job>  string  current, facts, end: a line each
-- ARGV[1] attempt
-- ARGV[2] assignment, as attempt node nonce
-- ARGV[3] attempts allowed
-- Replies: assigned | stale attempt | exhausted | ended state | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, attempt = KEYS[1], tonumber(ARGV[1])
local record = redis.call('GET', job)
if not record then
  return {'unknown'}
end
local current, facts, state = string.match(record, '^([^\n]*)\n([^\n]*)\n(%u*)')
if state ~= '' then
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
redis.call('SET', job, ARGV[2] .. '\n' .. facts .. '\n', 'KEEPTTL')
return {'assigned'}
