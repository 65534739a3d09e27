-- Replaces what leaders of a task have published, if nobody led it since.
-- KEYS[1] leader:<task>  hash
-- ARGV[1] fence
-- ARGV[2] what
-- Replies: done | superseded fence | unknown
-- Slot: leader:<task>. Clock: none.
local leader, fence = KEYS[1], tonumber(ARGV[1])
local newest = tonumber(redis.call('HGET', leader, 'fence') or 0)
if newest > fence then
  return {'superseded', newest}
end
if newest < fence then
  return {'unknown'}
end
redis.call('HSET', leader, 'published', ARGV[2])
return {'done'}
