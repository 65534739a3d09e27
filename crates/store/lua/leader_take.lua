-- Makes an instance the leader of a task if nobody else is, or extends its lead.
-- KEYS[1] leader:<task>  hash
-- ARGV[1] instance@boot
-- ARGV[2] lease, ms
-- Replies: leading fence | held instance
-- Slot: leader:<task>. Clock: TIME. The fence outlives the lease, so that it only ever grows.
local leader, lease = KEYS[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', leader, 'fence', 'instance', 'until')
local live = r[3] and tonumber(r[3]) > now
if live and r[2] ~= ARGV[1] then
  return {'held', r[2]}
end
local fence = tonumber(r[1] or 0)
if not live then
  fence = math.max(fence + 1, now)
end
redis.call('HSET', leader, 'fence', fence, 'instance', ARGV[1], 'until', now + lease)
return {'leading', fence}
