-- Change fields of a living session, and how long it lives.
--
-- KEYS[1] the session (hash)    ARGV[1] seconds it lives from now, or "" to leave that
-- ARGV[2...] field, value ... (may be none)
-- Returns 1, 0 when unknown, -1 when ended.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return -1 end
if ARGV[2] then redis.call('HSET', KEYS[1], unpack(ARGV, 2)) end
if ARGV[1] ~= '' then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1
