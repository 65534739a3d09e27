-- Takes a slot of a node for one token, if the node's own record says that it may.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset  token -> expiry ms; spent tokens -> 9e15 minus the ms of their end
-- KEYS[3] {n:<node>}:running   zset  token -> expiry ms
-- KEYS[4] {n:<node>}:gaps      zset  model -> until ms
-- ARGV[1] token
-- ARGV[2] lease, ms
-- ARGV[3] version of the profile that the choice was made on
-- ARGV[4] reign of the server at the other end of the connection, or empty to ask it here
-- ARGV[5] and on: wanted models
-- Replies: granted until used | already until | spent | full used max | unknown | changed version
--   | closed | stale | unconfirmed | held until | missing_model
-- Slot: {n:<node>}. Clock: TIME. Moments have 13 digits, so as texts they compare as numbers do; and
-- texts cost Redis half of what numbers do as arguments, and of what a list does as a reply.
local record, reserved, running, gaps = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, lease = ARGV[1], tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%d', now)

local function misses_a_model()
  for i = 5, #ARGV do
    local till = redis.call('ZSCORE', gaps, ARGV[i])
    if till and tonumber(till) > now then
      return true
    end
  end
  return false
end

-- The reign, a server's replication id, changes with every restart and every promotion: a lease that
-- this server never saw may exist, so nothing is granted before the node has said what it runs.
local function is_confirmed(reign)
  if ARGV[4] ~= '' then
    return reign == ARGV[4]
  end
  return reign ~= '' and string.find(redis.call('INFO', 'replication'), reign, 1, true) ~= nil
end

local used = 0
local function refusal()
  local r = redis.call('HMGET', record, 'version', 'max', 'open', 'fresh_until', 'reign',
    'hold_until', 'gaps_until')
  if not r[1] then
    return {'unknown'}
  end
  if r[1] ~= ARGV[3] then
    return {'changed', r[1]}
  end
  if r[3] ~= '1' then
    return {'closed'}
  end
  if r[4] <= now_text then
    return {'stale'}
  end
  if not is_confirmed(r[5]) then
    return {'unconfirmed'}
  end
  if r[6] > now_text then
    return {'held', tonumber(r[6])}
  end
  if r[7] > now_text and misses_a_model() then
    return {'missing_model'}
  end
  local live = '(' .. now_text
  used = redis.call('ZCOUNT', reserved, live, '4e15') + redis.call('ZCOUNT', running, live, '4e15')
  if used >= tonumber(r[2]) then
    return {'full', used, tonumber(r[2])}
  end
  return nil
end

local refused = refusal()
local till = string.format('%d', now + lease)
if not refused and redis.call('ZADD', reserved, 'NX', till, token) == 1 then
  return 'granted ' .. till .. ' ' .. (used + 1)
end
-- Either a refusal or a token seen before, and that one has its answer whatever became of the node.
local held = tonumber(redis.call('ZSCORE', reserved, token) or nil)
if held and held > now and held < 4e15 then
  return {'already', held}
end
local runs = tonumber(redis.call('ZSCORE', running, token) or nil)
if runs and runs > now then
  return {'already', runs}
end
if held or runs then
  return {'spent'}
end
return refused
