-- Says that an instance is alive, unless another life of the same name is.
-- KEYS[1] {i:<instance>}:presence  hash
-- KEYS[2] {i:<instance>}:boots     set  lives whose inbox may exist
-- ARGV[1] boot
-- ARGV[2] address
-- ARGV[3] lasting, ms
-- Replies: announced | taken address ms-left
-- Slot: {i:<instance>}. Clock: none, the server expires the key.
local presence, boots = KEYS[1], KEYS[2]
local r = redis.call('HMGET', presence, 'boot', 'address')
if r[1] and r[1] ~= ARGV[1] then
  return {'taken', r[2], redis.call('PTTL', presence)}
end
redis.call('HSET', presence, 'boot', ARGV[1], 'address', ARGV[2])
redis.call('PEXPIRE', presence, ARGV[3])
redis.call('SADD', boots, ARGV[1])
return {'announced'}
