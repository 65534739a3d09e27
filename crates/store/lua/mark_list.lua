-- Lists the marks that stay.
-- KEYS[1] marks  zset  mark -> until ms
-- Replies: marks list
-- Slot: marks. Clock: TIME.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {'marks', redis.call('ZRANGEBYSCORE', KEYS[1], now + 1, '+inf')}
