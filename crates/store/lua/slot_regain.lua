-- Gives a token that had no live lease when its ack came a running one, if it may have it.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] token
-- ARGV[2] lease, ms
-- Replies: committed until | already until | regained until | lost
-- Slot: {n:<node>}. Clock: TIME.
local record, leases = KEYS[1], KEYS[2]
local token, lease = ARGV[1], ARGV[2] + 0
if lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till = string.format('%d', now + lease)
local score = redis.call('ZSCORE', leases, token)
local held = score and -score
local kind = held and held % 10
if kind == 9 then
  return 'lost'
end
-- Another ack, a report or the reservation itself may have come in between.
if held and held > now * 10 + 9 then
  redis.call('ZADD', leases, '-' .. till .. '5', token)
  if kind == 0 then
    return 'committed ' .. till
  end
  return 'already ' .. till
end
-- No live lease. One that lapsed comes back while a slot is free; one that is not known at all only
-- while the node recovers from a loss of data.
local r = redis.call('HMGET', record, 'max', 'reign', 'hold_until')
if not r[1] then
  return 'lost'
end
if not held then
  local generation = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
  if r[2] == generation and tonumber(r[3]) <= now then
    return 'lost'
  end
end
if redis.call('ZCOUNT', leases, '-inf', string.format('(-%d9', now)) >= tonumber(r[1]) then
  return 'lost'
end
redis.call('ZADD', leases, '-' .. till .. '5', token)
return 'regained ' .. till
