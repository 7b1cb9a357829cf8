-- The storage account of owners for streams and tombstones: record sizes, remove entries, return an owner's sum.
--
-- KEYS[1]  expiry of streams (zset: stream, s)    KEYS[2]  streams (hash: "<bytes> <offset> <owner>")
-- KEYS[3]  owners (hash: bytes)
-- ARGV[1]  owner of the returned sum    ARGV[2]  maximum of expired streams to remove
-- ARGV[3]  number of notes             ARGV[4]  seconds their streams live
-- ARGV[5...]  for each note: stream, bytes, owner, offset of the stream's newest event at that size.
--             "+<bytes>" adds to the note of the same minute
-- ARGV[...]   deleted streams
-- Returns {bytes of the owner, 1 if further expired streams may remain, else 0}. A stream belongs to the owner of
-- its last note. A note replaces the previous one, so that errors do not add up. Notes of two processes may
-- arrive out of order: a note with a smaller offset than the stored one is late and is ignored.

local now = tonumber(redis.call('TIME')[1])
local noted, needed = tonumber(ARGV[3]), tonumber(ARGV[4])
local gone = 5 + 4 * noted

local function forget(stream)
  local noted = redis.call('HGET', KEYS[2], stream)
  if not noted then return end
  local bytes, owner = string.match(noted, '^(%d+) %d+ (.*)$')
  redis.call('ZREM', KEYS[1], stream)
  redis.call('HDEL', KEYS[2], stream)
  if redis.call('HINCRBY', KEYS[3], owner, '-' .. bytes) <= 0 then redis.call('HDEL', KEYS[3], owner) end
end

local function note(stream, bytes, owner, offset)
  if string.sub(bytes, 1, 1) == '+' then
    stream = stream .. '/' .. math.floor(now / 60)
    bytes = bytes + tonumber(string.match(redis.call('HGET', KEYS[2], stream) or '0', '^%d+'))
  end
  local known = string.match(redis.call('HGET', KEYS[2], stream) or '', '^%d+ (%d+)')
  if known and tonumber(known) > tonumber(offset) then return end
  bytes = string.format('%d', bytes)
  forget(stream)
  redis.call('ZADD', KEYS[1], now + needed, stream)
  redis.call('HSET', KEYS[2], stream, bytes .. ' ' .. offset .. ' ' .. owner)
  redis.call('HINCRBY', KEYS[3], owner, bytes)
end

local expired = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, stream in ipairs(expired) do forget(stream) end
for at = gone, #ARGV do forget(ARGV[at]) end
if noted > 0 then
  -- A write without memory first: see finish.lua. A longer expiry stays.
  redis.call('EXPIRE', KEYS[1], math.max(needed, redis.call('TTL', KEYS[1])))
  for at = 5, gone - 1, 4 do note(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]) end
  for _, key in ipairs(KEYS) do
    -- Longer than needed, so that not every note has to renew it.
    if redis.call('TTL', key) < needed + 60 then redis.call('EXPIRE', key, needed + 120) end
  end
end
return {tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0), #expired == tonumber(ARGV[2]) and 1 or 0}
