-- Writes a node's whole record for its owner.
-- KEYS[1]  {n:<node>}:record  hash
-- ARGV[1]  claim: newest | again
-- ARGV[2]  epoch of an owner that writes again
-- ARGV[3]  owner, as instance@boot
-- ARGV[4]  profile, as JSON
-- ARGV[5]  version of the profile
-- ARGV[6]  slots open to jobs
-- ARGV[7]  health, a word
-- ARGV[8]  overloaded: 1 | 0
-- ARGV[9]  fresh for, ms
-- ARGV[10] known before: 1 | 0
-- Replies: stored epoch owner-before | superseded epoch
-- Slot: {n:<node>}. Clock: TIME. Leases, gaps and the hold are never touched.
local record = KEYS[1]
local claim, epoch, owner, known = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = redis.call('HMGET', record, 'epoch', 'owner', 'reign', 'hold_until')
local last = tonumber(before[1] or 0)
if claim == 'newest' then
  epoch = math.max(last + 1, now)
elseif last > epoch then
  return {'superseded', last}
end
local generation, hold_until = before[3] or '', before[4] or '0'
if not before[1] and known == '0' then
  -- A node seen for the first time has nothing to lose. One that was known has: its grants wait
  -- until it says what it runs.
  generation = string.match(redis.call('INFO', 'replication'), 'master_replid:%w+')
end
local open = ARGV[7] == 'ready'
local fresh_until = string.format('%d', now + tonumber(ARGV[9]))
local gate = ''
if open and generation ~= '' and tonumber(hold_until) <= now then
  gate = generation .. ' ' .. ARGV[5] .. ' ' .. fresh_until .. string.format('%03d', ARGV[6])
end
redis.call('HSET', record, 'epoch', epoch, 'owner', owner, 'profile', ARGV[4], 'version', ARGV[5],
  'max', ARGV[6], 'health', ARGV[7], 'overloaded', ARGV[8], 'open', open and '1' or '0',
  'fresh_until', fresh_until, 'reign', generation, 'hold_until', hold_until, 'gate', gate)
return {'stored', epoch, claim == 'newest' and before[2] or ''}
