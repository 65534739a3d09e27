-- Takes a node's word on what it runs.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset  token -> expiry ms; spent tokens -> minus the ms of their end
-- KEYS[3] {n:<node>}:running   zset  token -> expiry ms
-- ARGV[1] epoch of the owner
-- ARGV[2] the node can say what it runs: 1 | 0
-- ARGV[3] lease of what it runs, ms
-- ARGV[4] grace for what was renewed just now, ms
-- ARGV[5] hold after a loss for a node that can say, ms
-- ARGV[6] hold after a loss for one that cannot, ms
-- ARGV[7] and on: tokens it runs, at most as many as a node has slots
-- Replies: confirmed unknown-tokens dropped-tokens | superseded epoch | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, reserved, running = KEYS[1], KEYS[2], KEYS[3]
local epoch, reports, lease, grace = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if not lease or lease < 1 then
  return redis.error_reply('ERR a lease lasts at least 1 ms')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local r = redis.call('HMGET', record, 'epoch', 'max', 'reign', 'hold_until')
local current = tonumber(r[1] or 0)
if current > epoch then
  return {'superseded', current}
end
if current < epoch then
  return {'unknown'}
end
local reign = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
local confirmed = r[3] == reign
local recovering = not confirmed or tonumber(r[4]) > now
local max = recovering and math.huge or tonumber(r[2])
local used = redis.call('ZCOUNT', reserved, '(' .. now, '+inf')
  + redis.call('ZCOUNT', running, '(' .. now, '+inf')

-- As slot_commit does for one token, with what is left of the slots. The scores are texts, which
-- cost Redis half of what numbers do.
local spent, till = '-' .. now, now + lease .. ''
local function keep(token)
  local held = tonumber(redis.call('ZSCORE', reserved, token) or nil)
  local runs = tonumber(redis.call('ZSCORE', running, token) or nil)
  if not ((held and held > now) or (runs and runs > now)) then
    local lapsed = runs or (held and held >= 0)
    if not (lapsed or (recovering and not held)) or used >= max then
      return false
    end
    used = used + 1
  end
  redis.call('ZADD', reserved, spent, token)
  redis.call('ZADD', running, till, token)
  return true
end

local unknown, dropped, reported = {}, {}, {}
if reports == '1' then
  for i = 7, #ARGV do
    reported[ARGV[i]] = true
    if not keep(ARGV[i]) then
      unknown[#unknown + 1] = ARGV[i]
    end
  end
  local recent = now + math.max(lease - grace, 0)
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', running, '(' .. now, recent)) do
    if not reported[token] then
      redis.call('ZREM', running, token)
      redis.call('ZADD', reserved, -now, token)
      dropped[#dropped + 1] = token
    end
  end
end
if not confirmed then
  redis.call('HSET', record, 'reign', reign,
    'hold_until', now + tonumber(reports == '1' and ARGV[5] or ARGV[6]))
end
return {'confirmed', unknown, dropped}
