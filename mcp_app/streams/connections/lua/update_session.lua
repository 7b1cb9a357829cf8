-- Change the fields and the expiry of an active session.
--
-- KEYS[1] the session (hash)    ARGV[1] seconds it lives from now, or "" for no change
-- ARGV[2] channel of a broadcast, published if the session was touched before, or ""    ARGV[3] its payload
-- ARGV[4...] field, value ... (may be none)
-- Returns 1, 0 if unknown, -1 if ended.

local found = redis.call('HMGET', KEYS[1], 'ended', 'touched')
if found[1] then return -1 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[4] then redis.call('HSET', KEYS[1], unpack(ARGV, 4)) end
if ARGV[1] ~= '' then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
if found[2] and ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return 1
