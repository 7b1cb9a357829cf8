-- Expect one answer to a request to the client.
--
-- KEYS[1] the request    KEYS[2] the session's index (zset)    KEYS[3] the session (hash)
-- ARGV[1] request id    ARGV[2] seconds it is open    ARGV[3] seconds the index lives
-- Returns 1, or 0 if the session ended. The value is "?" while open, then "=" and the answer.

if redis.call('HEXISTS', KEYS[3], 'ended') == 1 then return 0 end
redis.call('SET', KEYS[1], '?', 'EX', ARGV[2])
local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[2], now + ARGV[2], 'request:' .. ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. now)
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
