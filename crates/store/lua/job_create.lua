-- Writes a job down unless it is there.
-- KEYS[1] {s:<tag>}:job:<job>                 string  current, state, facts, end: a line each
-- KEYS[2] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] epoch of the session's owner, or empty
-- ARGV[2] from now to the deadline, ms
-- ARGV[3] remembered until so long from now, ms
-- ARGV[4] current assignment, as attempt node token, or 0 without one; a line break; state, a word
-- ARGV[5] tenant and session
-- Replies: created deadline | exists record | superseded epoch
-- Slot: {s:<tag>}. Clock: TIME. One text, so that the record and its expiry are one write.
local job, owner = KEYS[1], KEYS[2]
local deadline_in = tonumber(ARGV[2])
if not deadline_in or deadline_in < 1 then
  return redis.error_reply('ERR a deadline lies at least 1 ms ahead')
end
if ARGV[1] ~= '' then
  local epoch = tonumber(redis.call('HGET', owner, 'epoch') or 0)
  if epoch > tonumber(ARGV[1]) then
    return {'superseded', epoch}
  end
end
local time = redis.call('TIME')
local deadline = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000) + deadline_in)
local record = ARGV[4] .. '\n' .. deadline .. ' ' .. ARGV[5] .. '\n'
if redis.call('SET', job, record, 'NX', 'PX', ARGV[3]) then
  return 'created ' .. deadline
end
return {'exists', redis.call('GET', job)}
