-- Take or renew one of a number of places; expired leases are free.
--
-- KEYS[1] the places (zset: holder, end of lease in ms)
-- ARGV[1] holder    ARGV[2] number of places    ARGV[3] milliseconds of the lease
-- Returns 1, or 0 if others hold all places.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1
