-- Puts an envelope into the inbox of one life of an instance.
-- KEYS[1] {i:<instance>}:presence      hash
-- KEYS[2] {i:<instance>}:inbox:<boot>  stream  id from body not_after
-- KEYS[3] {i:<instance>}:seen:<boot>   zset    envelope id -> its end ms
-- ARGV[1] boot
-- ARGV[2] envelope id
-- ARGV[3] sender, as instance@boot
-- ARGV[4] body
-- ARGV[5] not to be acted on after so many ms
-- ARGV[6] envelopes the inbox holds
-- Replies: posted | gone | full
-- Slot: {i:<instance>}. Clock: TIME.
local presence, inbox, seen = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', presence, 'boot') ~= ARGV[1] then
  return {'gone'}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('ZSCORE', seen, ARGV[2])
if last and tonumber(last) > now then
  return {'posted'}
end
if redis.call('XLEN', inbox) >= tonumber(ARGV[6]) then
  return {'full'}
end
local over = now + tonumber(ARGV[5])
redis.call('ZREMRANGEBYSCORE', seen, '-inf', now)
redis.call('ZADD', seen, over, ARGV[2])
redis.call('XADD', inbox, '*', 'id', ARGV[2], 'from', ARGV[3], 'body', ARGV[4], 'not_after', over)
return {'posted'}
