-- Store the first answer to an open request and wake its waiter, even if memory is full.
--
-- KEYS[1] the request    ARGV[1] the answer    ARGV[2] channel    ARGV[3] name of the waiter
-- Returns 1 for the first answer, else 0.

if redis.call('GET', KEYS[1]) ~= '?' then return 0 end
-- A write without memory first: see finish.lua.
redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
redis.call('SET', KEYS[1], '=' .. ARGV[1], 'KEEPTTL')
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
