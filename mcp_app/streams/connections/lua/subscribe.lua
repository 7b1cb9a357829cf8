-- Subscribe an active session to a resource.
--
-- KEYS[1] the session (hash)    KEYS[2] its subscriptions (set)
-- ARGV[1] the resource    ARGV[2] subscription limit    ARGV[3] seconds the set lives
-- Returns 1, or 0 if there are too many or the session does not exist.

if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return 0 end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 0 and redis.call('SCARD', KEYS[2]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
