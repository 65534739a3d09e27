-- Replaces what a process counted on a day, unless it posted something later.
-- KEYS[1] {u:<day>}:writers  zset  process that posted for the day -> 0
-- KEYS[2] {u:<day>}:of:<writer>  string  serial and what was counted, with a space between
-- ARGV[1] writer, as instance and process
-- ARGV[2] serial
-- ARGV[3] what was counted
-- ARGV[4] when the day is forgotten, ms
-- ARGV[5] writers at most
-- Replies: kept | older | full
-- Slot: {u:<day>}. Clock: none.
local writers, counted, writer, serial = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local before = redis.call('GET', counted)
if before then
  if tonumber(string.match(before, '^%d+')) >= tonumber(serial) then
    return {'older'}
  end
elseif redis.call('ZCOUNT', writers, '-inf', '+inf') >= tonumber(ARGV[5]) then
  return {'full'}
end
redis.call('ZADD', writers, 0, writer)
redis.call('PEXPIREAT', writers, ARGV[4])
redis.call('SET', counted, serial .. ' ' .. ARGV[3])
redis.call('PEXPIREAT', counted, ARGV[4])
return {'kept'}
