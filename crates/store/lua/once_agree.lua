-- Tells everybody the least of the values that were proposed, by their letters.
-- KEYS[1] agreed:<name>  string  the value
-- ARGV[1] the caller's proposal
-- ARGV[2] how long it is kept from now on, ms
-- Replies: agreed value
-- Slot: agreed:<name>. Clock: none, the server ends the key.
local key, proposal, keep = KEYS[1], ARGV[1], ARGV[2]
local value = redis.call('GET', key)
if not value or proposal < value then
  value = proposal
end
redis.call('SET', key, value, 'PX', keep)
return {'agreed', value}
