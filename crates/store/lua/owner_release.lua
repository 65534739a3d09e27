-- Ends an ownership; its epoch is remembered.
-- KEYS[1] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] epoch
-- Replies: done | superseded epoch | unknown
-- Slot: {s:<tag>}. Clock: none.
local owner, epoch = KEYS[1], tonumber(ARGV[1])
local current = tonumber(redis.call('HGET', owner, 'epoch') or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch then
  return {'unknown'}
end
redis.call('HSET', owner, 'until', 0)
return {'done'}
