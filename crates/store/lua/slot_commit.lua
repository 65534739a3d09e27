-- Makes a reserved slot a running one.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset  token -> expiry ms; spent tokens -> 9e15 minus the ms of their end
-- KEYS[3] {n:<node>}:running   zset  token -> expiry ms
-- ARGV[1] token
-- ARGV[2] lease, ms
-- ARGV[3] reign of the server at the other end of the connection, or empty to ask it here
-- Replies: committed until | already until | regained until | lost
-- Slot: {n:<node>}. Clock: TIME.
local record, reserved, running = KEYS[1], KEYS[2], KEYS[3]
local token, lease = ARGV[1], tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till, spent = string.format('%d', now + lease), string.format('%d', 9e15 - now)
local held = tonumber(redis.call('ZSCORE', reserved, token) or nil)
if held and held > now and held < 4e15 then
  redis.call('ZADD', reserved, spent, token)
  redis.call('ZADD', running, till, token)
  return 'committed ' .. till
end
local runs = tonumber(redis.call('ZSCORE', running, token) or nil)
if runs and runs > now then
  redis.call('ZADD', running, till, token)
  return 'already ' .. till
end
-- No live lease. One that lapsed comes back while a slot is free; one that is not known at all only
-- while the node recovers from a loss of data; a spent one never.
local lapsed = runs or (held and held <= now)
if held and not lapsed then
  return 'lost'
end
local r = redis.call('HMGET', record, 'max', 'reign', 'hold_until')
if not r[1] then
  return 'lost'
end
local reign = ARGV[3]
if reign == '' then
  reign = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
end
local recovering = r[2] ~= reign or tonumber(r[3]) > now
local used = redis.call('ZCOUNT', reserved, '(' .. now, '4e15')
  + redis.call('ZCOUNT', running, '(' .. now, '4e15')
if not (lapsed or recovering) or used >= tonumber(r[1]) then
  return 'lost'
end
redis.call('ZADD', reserved, spent, token)
redis.call('ZADD', running, till, token)
return 'regained ' .. till
