-- Writes a job down unless it is there.
-- KEYS[1] {s:<tag>}:job:<job>                 string  current, facts, end: a line each
-- KEYS[2] {s:<tag>}:<tenant>:<session>:owner  hash    only with an epoch
-- ARGV[1] current assignment, as attempt node token, or 0 without one; a line break; tenant and session
-- ARGV[2] from now to the deadline, ms
-- ARGV[3] remembered until so long from now, ms
-- ARGV[4] epoch of the session's owner, or none
-- Replies: created deadline | exists record | superseded epoch
-- Slot: {s:<tag>}. Clock: TIME. One text, so that the record and its expiry are one write.
local job, owner, deadline_in = KEYS[1], KEYS[2], ARGV[2] + 0
if deadline_in < 1 then
  return redis.error_reply('ERR a deadline lies at least 1 ms ahead')
end
if owner then
  local epoch = tonumber(redis.call('HGET', owner, 'epoch') or 0)
  if epoch > tonumber(ARGV[4]) then
    return {'superseded', epoch}
  end
end
local time = redis.call('TIME')
local deadline = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000) + deadline_in)
if redis.call('SET', job, ARGV[1] .. ' ' .. deadline .. '\n', 'PX', ARGV[3], 'NX') then
  return 'created ' .. deadline
end
return {'exists', redis.call('GET', job)}
