-- Keeps what the next owner of a session needs, for the current one.
-- KEYS[1] {s:<tag>}:<tenant>:<session>:owner  hash
-- KEYS[2] {s:<tag>}:<tenant>:<session>:state  string
-- ARGV[1] epoch
-- ARGV[2] state
-- ARGV[3] kept for, ms
-- Replies: done | superseded epoch | unknown
-- Slot: {s:<tag>}. Clock: none.
local owner, state, epoch = KEYS[1], KEYS[2], tonumber(ARGV[1])
local current = tonumber(redis.call('HGET', owner, 'epoch') or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch then
  return {'unknown'}
end
redis.call('SET', state, ARGV[2], 'PX', ARGV[3])
return {'done'}
