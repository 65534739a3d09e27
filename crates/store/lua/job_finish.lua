-- Ends a job for its current assignment or its owner.
-- KEYS[1] {s:<tag>}:job:<job>  hash  state current facts end
-- ARGV[1] assignment that ends it, as attempt node token, or empty for the owner
-- ARGV[2] state: DONE | FAILED | CANCELLED
-- ARGV[3] end: by and code, with a space between them
-- Replies: finished | repeated | ended state | stale attempt | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, by = KEYS[1], ARGV[1]
local r = redis.call('HMGET', job, 'state', 'current')
local state, current = r[1], r[2]
if not state then
  return {'unknown'}
end
if by ~= '' and by ~= current then
  return {'stale', tonumber(string.match(current, '^%d+'))}
end
if state == 'DONE' or state == 'FAILED' or state == 'CANCELLED' then
  local ended = redis.call('HGET', job, 'end')
  -- A node may repeat itself with another code; an owner that says something else is another.
  local same = ended == ARGV[3] or (by ~= '' and string.sub(ended, 1, 5) == 'node ')
  if state == ARGV[2] and same then
    return {'repeated'}
  end
  return {'ended', state}
end
redis.call('HSET', job, 'state', ARGV[2], 'end', ARGV[3])
return {'finished'}
