-- Takes a node's word on what it runs.
-- KEYS[1] {n:<node>}:record  hash
-- KEYS[2] {n:<node>}:leases  zset  token -> minus its end ms and a digit: 0 reserved, 5 running, 9 spent
-- ARGV[1] epoch of the owner
-- ARGV[2] the node can say what it runs: 1 | 0
-- ARGV[3] lease of what it runs, ms
-- ARGV[4] grace for what was renewed just now, ms
-- ARGV[5] hold after a loss for a node that can say, ms
-- ARGV[6] hold after a loss for one that cannot, ms
-- ARGV[7] and on: tokens it runs, at most as many as a node has slots
-- Replies: confirmed unknown-tokens dropped-tokens | superseded epoch | unknown
-- Slot: {n:<node>}. Clock: TIME.
local record, leases = KEYS[1], KEYS[2]
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
local generation = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
local confirmed = r[3] == generation
local recovering = not confirmed or tonumber(r[4]) > now
local unknown, dropped, changes = {}, {}, {}

local function change(token, score)
  changes[#changes + 1], changes[#changes + 2] = score, token
end

if reports == '1' then
  -- What runs, runs: after a loss it is taken back also above the maximum.
  local max = recovering and math.huge or tonumber(r[2])
  local over, till = string.format('-%d9', now), string.format('-%d5', now + lease)
  local reported = {}
  for i = 7, #ARGV do
    reported[ARGV[i]] = true
  end
  -- First what is gone, so that its slots are free for lapsed leases that the node names.
  local recent = string.format('-%d5', now + math.max(lease - grace, 0))
  local older = redis.call('ZRANGEBYSCORE', leases, recent, '(' .. over, 'WITHSCORES')
  for i = 1, #older, 2 do
    if -older[i + 1] % 10 == 5 and not reported[older[i]] then
      dropped[#dropped + 1] = older[i]
      change(older[i], over)
    end
  end
  local used = redis.call('ZCOUNT', leases, '-inf', '(' .. over) - #dropped
  local scores = #ARGV > 6 and redis.call('ZMSCORE', leases, unpack(ARGV, 7)) or {}
  local kept = {}
  for i = 7, #ARGV do
    -- As slot_regain does for one token, with what is left of the slots.
    local held = scores[i - 6] and -scores[i - 6]
    local spent = held and held % 10 == 9
    local live = kept[ARGV[i]] or (held and not spent and held > now * 10 + 9)
    local known = not spent and (held or recovering)
    if live or (known and used < max) then
      used = live and used or used + 1
      kept[ARGV[i]] = true
      change(ARGV[i], till)
    else
      unknown[#unknown + 1] = ARGV[i]
    end
  end
end
if #changes > 0 then
  redis.call('ZADD', leases, unpack(changes))
end
if not confirmed then
  redis.call('HSET', record, 'reign', generation, 'gate', '',
    'hold_until', now + tonumber(reports == '1' and ARGV[5] or ARGV[6]))
end
return {'confirmed', unknown, dropped}
