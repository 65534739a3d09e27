-- Binds a request's id to a job, or says which job it is bound to.
-- KEYS[1] {r:<tenant>:<request>}  string
-- ARGV[1] job
-- ARGV[2] remembered for, ms
-- Replies: job id
-- Slot: {r:<tenant>:<request>}. Clock: none.
local bound = redis.call('GET', KEYS[1])
if not bound then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  bound = ARGV[1]
end
return {'job', bound}
