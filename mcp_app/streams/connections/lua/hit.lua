-- Count one event in a fixed window.
--
-- KEYS[1] the window    ARGV[1] limit    ARGV[2] milliseconds
-- Returns 1 within the limit, else 0.

local count = redis.call('INCR', KEYS[1])
if count == 1 or redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count <= tonumber(ARGV[1]) and 1 or 0
