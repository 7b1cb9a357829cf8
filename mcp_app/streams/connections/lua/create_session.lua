-- Store a session unless it was ended.
--
-- KEYS[1] the session (hash)    ARGV[1] seconds it lives    ARGV[2...] field, value, field, value ...
-- Returns 1, or 0 if the session has a tombstone.

if redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
