-- Frees a request's id that is bound to this job.
-- KEYS[1] {r:<tenant>:<request>}  string
-- ARGV[1] job
-- Replies: released | kept
-- Slot: {r:<tenant>:<request>}. Clock: none.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'kept'}
end
redis.call('DEL', KEYS[1])
return {'released'}
