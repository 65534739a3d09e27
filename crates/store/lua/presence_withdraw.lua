-- Says that an instance is gone, if it is still this life of it.
-- KEYS[1] {i:<instance>}:presence  hash
-- ARGV[1] boot
-- Replies: withdrawn | other
-- Slot: {i:<instance>}. Clock: none.
local presence = KEYS[1]
if redis.call('HGET', presence, 'boot') ~= ARGV[1] then
  return {'other'}
end
redis.call('DEL', presence)
return {'withdrawn'}
