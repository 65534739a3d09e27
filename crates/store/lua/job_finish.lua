-- Ends a job for its current assignment or its owner.
-- KEYS[1] {s:<tag>}:job:<job>  string  current, state, facts, end: a line each
-- ARGV[1] assignment that ends it, as attempt node token, or empty for the owner
-- ARGV[2] state: DONE | FAILED | CANCELLED
-- ARGV[3] end: by and code, with a space between them
-- Replies: finished | repeated | ended state | stale attempt | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, by = KEYS[1], ARGV[1]
local record = redis.call('GET', job)
if not record then
  return {'unknown'}
end
local current, state, facts, ended = string.match(record, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
if by ~= '' and by ~= current then
  return {'stale', tonumber(string.match(current, '^%d+'))}
end
if state == 'DONE' or state == 'FAILED' or state == 'CANCELLED' then
  -- A node may repeat itself with another code; an owner that says something else is another.
  local same = ended == ARGV[3] or (by ~= '' and string.sub(ended, 1, 5) == 'node ')
  if state == ARGV[2] and same then
    return {'repeated'}
  end
  return {'ended', state}
end
redis.call('SET', job, current .. '\n' .. ARGV[2] .. '\n' .. facts .. '\n' .. ARGV[3], 'KEEPTTL')
return 'finished'
