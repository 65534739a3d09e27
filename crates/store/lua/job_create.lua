-- Writes a job down unless it is there.
-- KEYS[1] {s:<tag>}:job:<job>                 hash
-- KEYS[2] {s:<tag>}:<tenant>:<session>:owner  hash
-- ARGV[1] tenant
-- ARGV[2] session
-- ARGV[3] epoch of the session's owner, or empty
-- ARGV[4] from now to the deadline, ms
-- ARGV[5] remembered after the deadline, ms
-- ARGV[6] state, a word
-- ARGV[7] attempt, 0 without an assignment
-- ARGV[8] node, or empty
-- ARGV[9] token, or empty
-- Replies: created deadline | exists tenant session state attempt node token deadline code
--   | superseded epoch
-- Slot: {s:<tag>}. Clock: TIME.
local job, owner = KEYS[1], KEYS[2]
local deadline_in, keep = tonumber(ARGV[4]), tonumber(ARGV[5])
if not deadline_in or deadline_in < 1 or not keep or keep < 1 then
  return redis.error_reply('ERR a deadline lies at least 1 ms ahead')
end
if ARGV[3] ~= '' then
  local epoch = tonumber(redis.call('HGET', owner, 'epoch') or 0)
  if epoch > tonumber(ARGV[3]) then
    return {'superseded', epoch}
  end
end
if redis.call('EXISTS', job) == 1 then
  local r = redis.call('HMGET', job, 'tenant', 'session', 'state', 'attempt', 'node', 'token',
    'deadline', 'code')
  return {'exists', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}
end
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + deadline_in
redis.call('HSET', job, 'tenant', ARGV[1], 'session', ARGV[2], 'state', ARGV[6], 'attempt', ARGV[7],
  'node', ARGV[8], 'token', ARGV[9], 'deadline', deadline, 'code', '', 'by', '')
redis.call('PEXPIREAT', job, deadline + keep)
return {'created', deadline}
