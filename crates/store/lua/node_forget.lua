-- Forgets a node that is long gone and holds no slot.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset
-- KEYS[3] {n:<node>}:running   zset
-- KEYS[4] {n:<node>}:gaps      zset
-- ARGV[1] how long it must not have been fresh, ms
-- Replies: forgotten | kept | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, reserved, running, gaps = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fresh_until = redis.call('HGET', record, 'fresh_until')
if not fresh_until then
  return {'unknown'}
end
local used = redis.call('ZCOUNT', reserved, '(' .. now, '4e15')
  + redis.call('ZCOUNT', running, '(' .. now, '4e15')
if used > 0 or tonumber(fresh_until) + tonumber(ARGV[1]) > now then
  return {'kept'}
end
redis.call('UNLINK', record, reserved, running, gaps)
return {'forgotten'}
