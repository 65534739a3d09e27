-- Writes a job of a session's epoch down unless it is there.
-- KEYS[1] {s:<tag>}:job:<job>                 string  current, facts, end: a line each
-- KEYS[2] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] the record
-- ARGV[2] remembered until so long from now, ms
-- ARGV[3] epoch of the session's owner
-- Replies: created | exists | superseded epoch
-- Slot: {s:<tag>}. Clock: none. One text, so that the record and its expiry are one write.
local job, owner = KEYS[1], KEYS[2]
local epoch = tonumber(redis.call('HGET', owner, 'epoch') or 0)
if epoch > tonumber(ARGV[3]) then
  return {'superseded', epoch}
end
if redis.call('SET', job, ARGV[1], 'PX', ARGV[2], 'NX') then
  return 'created'
end
return 'exists'
