-- Counts one event if it fits into a rate (GCRA).
-- KEYS[1] rate:<name>  string  the moment from which the whole burst is free again, ms
-- ARGV[1] interval, ms
-- ARGV[2] burst
-- Replies: allowed | limited ms
-- Slot: rate:<name>. Clock: TIME.
local key, interval, burst = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local free = math.max(tonumber(redis.call('GET', key) or 0), now)
local wait = free + interval - burst * interval - now
if wait > 0 then
  return {'limited', wait}
end
redis.call('SET', key, free + interval, 'PX', free + interval - now)
return {'allowed'}
