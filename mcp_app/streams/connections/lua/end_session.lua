-- End a session: delete its keys, leave a tombstone, wake every watcher.
--
-- KEYS[1] the session (hash)    KEYS[2] its subscriptions    KEYS[3] its index (zset)
-- ARGV[1] prefix of all keys of the session (they share KEYS[1]'s hash tag)
-- ARGV[2] seconds the tombstone lives    ARGV[3] channel that wakes watchers    ARGV[4] payload for all of them
-- Optional:
-- ARGV[5] channel of a broadcast, or ""    ARGV[6] its payload
-- ARGV[7] a field: end only a known session without it, and broadcast only if it was touched
-- Returns the session's principal ("" if it is unknown or ended) and the names of the deleted streams.
-- With ARGV[7]: 0 if nothing was done, -1 if the session was ended before.

local tell, unless = (ARGV[5] or '') ~= '', ARGV[7] or ''
local found = redis.call('HMGET', KEYS[1], 'principal', 'ended', unless, 'touched')
if unless ~= '' then
  if found[2] then return -1 end
  if found[3] or not found[1] then return 0 end
  tell = tell and found[4]
end
local principal = found[1] or ''
local streams = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  redis.call('UNLINK', ARGV[1] .. member)
  if string.sub(member, 1, 7) == 'stream:' then
    table.insert(streams, string.sub(member, 8))
    redis.call('UNLINK', ARGV[1] .. 'meta:' .. string.sub(member, 8))
  end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'ended', 1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
if tell then redis.call('PUBLISH', ARGV[5], ARGV[6]) end
return {principal, streams}
