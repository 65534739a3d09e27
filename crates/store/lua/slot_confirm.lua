-- Takes a node's word on what it runs.
-- KEYS[1] {n:<node>}:record    hash
-- KEYS[2] {n:<node>}:reserved  zset  token -> expiry ms; spent tokens -> 9e15 minus the ms of their end
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
local unknown, dropped = {}, {}
local spent, runs = {}, {}

local function keep(token)
  spent[#spent + 1], spent[#spent + 2] = string.format('%d', 9e15 - now), token
  runs[#runs + 1], runs[#runs + 2] = string.format('%d', now + lease), token
end

if reports == '1' then
  -- What runs, runs: after a loss it is taken back also above the maximum.
  local max = recovering and math.huge or tonumber(r[2])
  local used = redis.call('ZCOUNT', reserved, '(' .. now, '4e15')
    + redis.call('ZCOUNT', running, '(' .. now, '4e15')
  local reported = {}
  for i = 7, #ARGV do
    reported[ARGV[i]] = true
  end
  -- First what is gone, so that its slots are free for lapsed leases that the node names.
  local recent = now + math.max(lease - grace, 0)
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', running, '(' .. now, recent)) do
    if not reported[token] then
      dropped[#dropped + 1] = token
      spent[#spent + 1], spent[#spent + 2] = string.format('%d', 9e15 - now), token
    end
  end
  used = used - #dropped
  local held_scores, run_scores = {}, {}
  if #ARGV > 6 then
    held_scores = redis.call('ZMSCORE', reserved, unpack(ARGV, 7))
    run_scores = redis.call('ZMSCORE', running, unpack(ARGV, 7))
  end
  local kept = {}
  for i = 7, #ARGV do
    -- As slot_commit does for one token, with what is left of the slots.
    local held, run = tonumber(held_scores[i - 6] or nil), tonumber(run_scores[i - 6] or nil)
    local live = (held and held > now and held < 4e15) or (run and run > now) or kept[ARGV[i]]
    local known = live or run or (held and held <= now) or (recovering and not held)
    if live or (known and used < max) then
      used = live and used or used + 1
      kept[ARGV[i]] = true
      keep(ARGV[i])
    else
      unknown[#unknown + 1] = ARGV[i]
    end
  end
end
if #dropped > 0 then
  redis.call('ZREM', running, unpack(dropped))
end
if #runs > 0 then
  redis.call('ZADD', running, unpack(runs))
end
if #spent > 0 then
  redis.call('ZADD', reserved, unpack(spent))
end
if not confirmed then
  redis.call('HSET', record, 'reign', reign,
    'hold_until', now + tonumber(reports == '1' and ARGV[5] or ARGV[6]))
end
return {'confirmed', unknown, dropped}
