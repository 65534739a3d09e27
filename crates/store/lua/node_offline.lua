-- Marks a node offline for its current owner.
-- KEYS[1] {n:<node>}:record  hash
-- ARGV[1] epoch of the owner
-- Replies: done | superseded epoch | unknown
-- Slot: {n:<node>}. Clock: none. Its leases stay until they lapse.
local record, epoch = KEYS[1], tonumber(ARGV[1])
local current = tonumber(redis.call('HGET', record, 'epoch') or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch then
  return {'unknown'}
end
redis.call('HSET', record, 'health', 'offline', 'open', '0', 'gate', '')
return {'done'}
