-- Ends a job for its current assignment or its owner.
-- KEYS[1] {s:<tag>}:job:<job>  string  current, facts, end: a line each
-- ARGV[1] assignment that ends it, as attempt node nonce and a line break, or empty for the owner
-- ARGV[2] end: DONE | FAILED | CANCELLED, by whom and code, with spaces between them
-- Replies: finished | repeated | ended state | stale attempt | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, by, ending = KEYS[1], ARGV[1], ARGV[2]
local record = redis.call('GET', job)
if not record then
  return {'unknown'}
end
if string.find(record, by, 1, true) ~= 1 then
  return {'stale', tonumber(string.match(record, '^%d+'))}
end
if string.sub(record, -1) == '\n' then
  redis.call('APPEND', job, ending)
  return 'finished'
end
-- A node may repeat itself with another code; an owner that says something else is another.
local ended = string.match(record, '[^\n]*$')
local by_node = string.match(ended, '^%u+ node ')
if ended == ending or (by_node and by_node == string.match(ending, '^%u+ node ')) then
  return {'repeated'}
end
return {'ended', string.match(ended, '^%u+')}
