-- Takes a slot of a node for one token, if the node's own record says that it may.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- KEYS[3] {n:<node>}:gaps    zset  model -> until ms; only with wanted models
-- ARGV[1] token
-- ARGV[2] lease, ms
-- ARGV[3] generation of the server at the other end of the connection, or nothing to ask it here; a space;
--         version of the profile that the choice was made on; a space
-- ARGV[4] and on: wanted models
-- Replies: granted until used | already until | spent | full used max | unknown | changed version
--   | closed | stale | unconfirmed | held until | missing_model
-- Slot: {n:<node>}. Clock: TIME. Calls cost Redis most, then long texts, numbers as arguments and lists.
local record, leases, gaps = KEYS[1], KEYS[2], KEYS[3]
local token, lease, wish = ARGV[1], ARGV[2] + 0, ARGV[3]
if lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till = string.format('%d', now + lease)
local used = redis.call('ZCOUNT', leases, '-inf', string.format('(-%d9', now))
local missing = false
for i = 4, #ARGV do
  local ends = redis.call('ZSCORE', gaps, ARGV[i])
  missing = missing or (ends and tonumber(ends) > now)
end

-- The gate is the record of a node that may take jobs in one text: generation, version, and fresh_until with
-- three more digits, its maximum.
local gate = redis.call('HGET', record, 'gate') or ''
local from, to = string.find(gate, wish, 1, true)
local fresh_and_max = from == 1 and string.sub(gate, to + 1) + 0 or 0
local free = fresh_and_max >= (now + 1) * 1000 and used < fresh_and_max % 1000
if free and not missing and redis.call('ZADD', leases, 'NX', '-' .. till .. '0', token) == 1 then
  return 'granted ' .. till .. ' ' .. (used + 1)
end

-- A token seen before has its answer, whatever became of the node.
local score = redis.call('ZSCORE', leases, token)
if score and -score % 10 ~= 9 and -score > now * 10 + 9 then
  return {'already', math.floor(-score / 10)}
end
if score then
  return {'spent'}
end
local r = redis.call('HMGET', record, 'version', 'open', 'fresh_until', 'reign', 'hold_until', 'max')
local generation, version = string.match(wish, '^(%S*) (%S+) $')
if not r[1] then
  return {'unknown'}
end
if r[1] ~= version then
  return {'changed', r[1]}
end
if r[2] ~= '1' then
  return {'closed'}
end
if tonumber(r[3]) <= now then
  return {'stale'}
end
-- The generation, a server's replication id, changes with every restart and every promotion: a lease that
-- this server never saw may exist, so nothing is granted before the node has said what it runs.
if generation == '' then
  generation = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
end
if r[4] ~= generation then
  return {'unconfirmed'}
end
if tonumber(r[5]) > now then
  return {'held', tonumber(r[5])}
end
if missing then
  return {'missing_model'}
end
if used >= tonumber(r[6]) then
  return {'full', used, tonumber(r[6])}
end
redis.call('ZADD', leases, '-' .. till .. '0', token)
return 'granted ' .. till .. ' ' .. (used + 1)
