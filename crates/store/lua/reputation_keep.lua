-- Keeps what is known of a node, for its current owner.
-- KEYS[1] {n:<node>}:record      hash
-- KEYS[2] {n:<node>}:reputation  hash  known -> JSON, at -> ms
-- ARGV[1] epoch of the owner
-- ARGV[2] what is known, as JSON
-- ARGV[3] how long it is kept, ms
-- Replies: done | superseded epoch | unknown
-- Slot: {n:<node>}. Clock: TIME. It outlives the record.
local record, reputation, epoch = KEYS[1], KEYS[2], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local current = tonumber(redis.call('HGET', record, 'epoch') or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch then
  return {'unknown'}
end
redis.call('HSET', reputation, 'known', ARGV[2], 'at', string.format('%d', now))
redis.call('PEXPIRE', reputation, ARGV[3])
return {'done'}
