-- Makes an instance the owner of a session, whoever was it before.
-- KEYS[1] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] instance@boot
-- ARGV[2] lease, ms
-- ARGV[3] how long the epoch is remembered after the lease, ms
-- Replies: claimed epoch instance-before
-- Slot: {s:<tag>}. Clock: TIME.
local owner, lease = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', owner, 'epoch', 'instance', 'until')
local epoch = math.max(tonumber(r[1] or 0) + 1, now)
redis.call('HSET', owner, 'epoch', epoch, 'instance', ARGV[1], 'until', now + lease)
redis.call('PEXPIREAT', owner, now + lease + tonumber(ARGV[3]))
local live = r[3] and tonumber(r[3]) > now
return {'claimed', epoch, live and r[2] or ''}
