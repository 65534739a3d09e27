-- Forgets a node that is long gone and holds no slot.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- KEYS[3] {n:<node>}:gaps    zset
-- ARGV[1] how long it must not have been fresh, ms
-- Replies: forgotten | kept | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, leases, gaps = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fresh_until = redis.call('HGET', record, 'fresh_until')
if not fresh_until then
  return {'unknown'}
end
local used = redis.call('ZCOUNT', leases, '-inf', string.format('(-%d9', now))
if used > 0 or tonumber(fresh_until) + tonumber(ARGV[1]) > now then
  return {'kept'}
end
redis.call('UNLINK', record, leases, gaps)
return {'forgotten'}
