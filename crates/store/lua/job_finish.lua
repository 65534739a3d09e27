-- Ends a job for its current assignment or its owner.
-- KEYS[1] {s:<tag>}:job:<job>  hash
-- ARGV[1] by: node | owner
-- ARGV[2] node, or empty for the owner
-- ARGV[3] token, or empty for the owner
-- ARGV[4] state: DONE | FAILED | CANCELLED
-- ARGV[5] code, empty for a good end
-- Replies: finished | repeated | ended state | stale attempt | unknown
-- Slot: {s:<tag>}. Clock: none.
local job, by = KEYS[1], ARGV[1]
local r = redis.call('HMGET', job, 'state', 'attempt', 'node', 'token', 'code', 'by')
local state = r[1]
if not state then
  return {'unknown'}
end
if by == 'node' and (r[3] ~= ARGV[2] or r[4] ~= ARGV[3]) then
  return {'stale', tonumber(r[2])}
end
if state == 'DONE' or state == 'FAILED' or state == 'CANCELLED' then
  local same = r[6] == by and state == ARGV[4] and (by == 'node' or r[5] == ARGV[5])
  if same then
    return {'repeated'}
  end
  return {'ended', state}
end
redis.call('HSET', job, 'state', ARGV[4], 'code', ARGV[5], 'by', by)
return {'finished'}
