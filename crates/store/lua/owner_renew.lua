-- Extends an ownership, or brings one back that lapsed or was lost and that nobody claimed since.
-- KEYS[1] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] instance@boot
-- ARGV[2] epoch
-- ARGV[3] lease, ms
-- ARGV[4] how long the epoch is remembered after the lease, ms
-- Replies: done | superseded epoch
-- Slot: {s:<tag>}. Clock: TIME.
local owner, epoch, lease = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local current = tonumber(redis.call('HGET', owner, 'epoch') or 0)
if current > epoch then
  return {'superseded', current}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', owner, 'epoch', epoch, 'instance', ARGV[1], 'until', now + lease)
redis.call('PEXPIREAT', owner, now + lease + tonumber(ARGV[4]))
return {'done'}
