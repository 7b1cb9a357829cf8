-- Add a process's increments to the totals of all; a repeated report is counted once.
--
-- KEYS[1] totals (hash)   KEYS[2] names counted (set)   KEYS[3] reports (hash)   KEYS[4] processes (zset)
-- ARGV[1] process   ARGV[2] number of its report   ARGV[3] its state   ARGV[4] names at most
-- ARGV[5] seconds to recognize a repeated report   ARGV[6] seconds the keys live
-- ARGV[7...] prefix, name, suffix, count: four for each increment; surplus names count as 'other'

local now = tonumber(redis.call('TIME')[1])
local last = redis.call('HGET', KEYS[3], ARGV[1])
local new = tonumber(ARGV[2]) > tonumber(last and string.match(last, '^%d+') or -1)

redis.call('HSET', KEYS[3], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
redis.call('ZADD', KEYS[4], now, ARGV[1])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - tonumber(ARGV[5]))) do
  redis.call('ZREM', KEYS[4], gone)
  redis.call('HDEL', KEYS[3], gone)
end

for at = 7, new and #ARGV or 0, 4 do
  local name = ARGV[at + 1]
  if name ~= '' and name ~= 'other' and redis.call('SISMEMBER', KEYS[2], name) == 0 then
    if redis.call('SCARD', KEYS[2]) < tonumber(ARGV[4]) then
      redis.call('SADD', KEYS[2], name)
    else
      name = 'other'
    end
  end
  redis.call('HINCRBY', KEYS[1], ARGV[at] .. name .. ARGV[at + 2], ARGV[at + 3])
end

for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[6]) end
return new and 1 or 0
