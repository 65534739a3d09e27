-- Gives up a lead, if it is still this one.
-- KEYS[1] leader:<task>  hash
-- ARGV[1] instance@boot
-- ARGV[2] fence
-- Replies: resigned | other
-- Slot: leader:<task>. Clock: none.
local leader = KEYS[1]
local r = redis.call('HMGET', leader, 'fence', 'instance')
if not r[1] or tonumber(r[1]) ~= tonumber(ARGV[2]) or r[2] ~= ARGV[1] then
  return {'other'}
end
redis.call('HSET', leader, 'until', 0)
return {'resigned'}
