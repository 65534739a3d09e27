-- Writes a job down unless it is there.
-- KEYS[1] {s:<tag>}:job:<job>                 hash  state current facts end
-- KEYS[2] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] epoch of the session's owner, or empty
-- ARGV[2] from now to the deadline, ms
-- ARGV[3] remembered after the deadline, ms
-- ARGV[4] state, a word
-- ARGV[5] current assignment, as attempt node token, or 0 without one
-- ARGV[6] tenant and session
-- Replies: created deadline | exists state current facts end | superseded epoch
-- Slot: {s:<tag>}. Clock: TIME. Few fields: each costs as much as a call.
local job, owner = KEYS[1], KEYS[2]
local deadline_in, keep = tonumber(ARGV[2]), tonumber(ARGV[3])
if not deadline_in or deadline_in < 1 or not keep or keep < 1 then
  return redis.error_reply('ERR a deadline lies at least 1 ms ahead')
end
if ARGV[1] ~= '' then
  local epoch = tonumber(redis.call('HGET', owner, 'epoch') or 0)
  if epoch > tonumber(ARGV[1]) then
    return {'superseded', epoch}
  end
end
if redis.call('EXISTS', job) == 1 then
  local r = redis.call('HMGET', job, 'state', 'current', 'facts', 'end')
  return {'exists', r[1], r[2], r[3], r[4]}
end
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + deadline_in
redis.call('HSET', job, 'state', ARGV[4], 'current', ARGV[5], 'facts', deadline .. ' ' .. ARGV[6])
redis.call('PEXPIREAT', job, (deadline + keep) .. '')
return {'created', deadline}
