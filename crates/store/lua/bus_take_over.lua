-- Takes over the inbox of a dead instance; removes it when nothing is left.
-- KEYS[1] {i:<instance>}:presence      hash
-- KEYS[2] {i:<instance>}:inbox:<boot>  stream
-- KEYS[3] {i:<instance>}:seen:<boot>   zset
-- KEYS[4] {i:<instance>}:heir:<boot>   string
-- KEYS[5] {i:<instance>}:boots         set
-- ARGV[1] boot
-- ARGV[2] successor, as instance@boot
-- ARGV[3] lease of the successor, ms
-- ARGV[4] entries at a time
-- Replies: alive | held | entries now list
-- Slot: {i:<instance>}. Clock: TIME.
local presence, inbox, seen, successor, boots = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if redis.call('HGET', presence, 'boot') == ARGV[1] then
  return {'alive'}
end
local at_it = redis.call('GET', successor)
if at_it and at_it ~= ARGV[2] then
  return {'held'}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entries = redis.call('XRANGE', inbox, '-', '+', 'COUNT', ARGV[4])
if #entries == 0 then
  redis.call('UNLINK', inbox, seen, successor)
  redis.call('SREM', boots, ARGV[1])
else
  redis.call('SET', successor, ARGV[2], 'PX', ARGV[3])
end
return {'entries', now, entries}
