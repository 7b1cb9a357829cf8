-- What every script that writes a stream begins with.
--
-- KEYS[1]  the stream                     KEYS[2]  its facts (hash)
-- KEYS[3]  the session's index (zset)     KEYS[4]  the session (hash; the field "ended" makes it a tombstone)
-- ARGV[1]  epoch to take if the stream is created now
-- ARGV[2]  stream name    ARGV[3]  seconds the stream lives    ARGV[4]  seconds the index lives
-- ARGV[5]  channel that wakes readers
-- ARGV[6]  whose account the stream is kept on if it is created now; "" is the principal of its session
--
-- Facts: epoch, last (offset of the newest event), first (offset of the oldest kept), bytes (data kept that may
-- be trimmed), fence (highest attempt that has written), final (1 when nothing may follow), kept (when expiry was
-- set, s), owner (whose account it is on), answers (data kept that is never trimmed), noted (size in the account).

-- What an event costs besides its data, and a stream with its facts and its places in index and account.
local EVENT, STREAM = 64, 5000
-- The account is told of a stream that changed by so much.
local STEP = 4096

local function ended()
  return redis.call('HEXISTS', KEYS[4], 'ended') == 1
end

local function load()
  local facts = redis.call('HMGET', KEYS[2], 'epoch', 'last', 'first', 'bytes', 'fence', 'final', 'kept',
    'owner', 'answers', 'noted')
  if not facts[1] then return nil end
  return {
    epoch = facts[1], last = tonumber(facts[2]), first = tonumber(facts[3]),
    bytes = tonumber(facts[4]), fence = tonumber(facts[5]), final = tonumber(facts[6]),
    kept = tonumber(facts[7]) or 0, owner = facts[8] or '', answers = tonumber(facts[9]) or 0,
    noted = tonumber(facts[10]) or 0,
  }
end

local function store(facts)
  redis.call('HSET', KEYS[2], 'epoch', facts.epoch, 'last', facts.last, 'first', facts.first,
    'bytes', facts.bytes, 'fence', facts.fence, 'final', facts.final, 'kept', facts.kept,
    'owner', facts.owner, 'answers', facts.answers, 'noted', facts.noted)
end

local function new()
  local owner = ARGV[6]
  if owner == '' then owner = redis.call('HGET', KEYS[4], 'principal') or '' end
  return {
    epoch = ARGV[1], last = 0, first = 1, bytes = 0, fence = 0, final = 0, kept = 0, owner = owner, answers = 0,
    noted = 0,
  }
end

-- Events whose facts were evicted belong to an earlier life: they are deleted when a stream is created. That comes
-- after an HSET: a full Redis refuses the first HSET, but nothing after a write that it did allow.
local function create()
  local facts = new()
  store(facts)
  redis.call('DEL', KEYS[1])
  return facts
end

-- Answers ("f", and "a" of a batch whose others are still to come) are never trimmed.
local function is_answer(kind)
  return kind == 'f' or kind == 'a'
end

local function add(facts, kind, data)
  facts.last = facts.last + 1
  redis.call('XADD', KEYS[1], facts.epoch .. '-' .. facts.last, 'k', kind, 'd', data)
  local counted = is_answer(kind) and 'answers' or 'bytes'
  facts[counted] = facts[counted] + #data
end

local function now()
  return tonumber(redis.call('TIME')[1])
end

-- Store the facts and let the stream and its place in the index live for their full time from now.
local function keep(facts)
  facts.kept = now()
  store(facts)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
  redis.call('ZADD', KEYS[3], facts.kept + ARGV[3], 'stream:' .. ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. facts.kept)
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end

-- Store the facts of a stream that was written to; whole as keep() does only when it is "renewed". Most writes come
-- soon after another. The events' key is new with the first of them, so it always gets its expiry; should it outlive
-- the facts by a little, create() clears it away.
local function written(facts, renewed)
  if renewed then return keep(facts) end
  store(facts)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end

-- Make room by what is no answer, oldest first. Before "first" only answers are left.
local function trim(facts, max_events, max_bytes)
  while facts.last - facts.first + 1 > max_events or facts.bytes > max_bytes do
    local oldest = redis.call('XRANGE', KEYS[1], facts.epoch .. '-' .. facts.first, '+', 'COUNT', 1)[1]
    local offset = tonumber(string.match(oldest[1], '%d+$'))
    local answers = is_answer(oldest[2][2])
    if offset >= facts.last then
      -- The newest event always stays, even if a foreign hand has removed the others.
      facts.first = offset
      facts.bytes = answers and 0 or #oldest[2][4]
      break
    end
    if not answers then
      redis.call('XDEL', KEYS[1], oldest[1])
      facts.bytes = facts.bytes - #oldest[2][4]
    end
    facts.first = offset + 1
  end
end

-- What the scripts return: the position and, where the account is to be told, whose it is and the stream's size.
-- To be called before the facts are stored. "renewed": the stream lives for its full time from now.
local function placed(facts, renewed)
  local size = STREAM + facts.bytes + facts.answers + (facts.last - facts.first + 1) * EVENT
  if facts.owner == '' or not (renewed or math.abs(size - facts.noted) >= STEP) then
    return {facts.epoch, facts.last}
  end
  facts.noted = size
  return {facts.epoch, facts.last, facts.owner, size}
end

-- The end of a write: the facts are stored, readers are woken. "share": the part of its life after which the stream
-- lives for its full time again.
local function told(facts, share)
  local renewed = now() - facts.kept > tonumber(ARGV[3]) * share
  local place = placed(facts, renewed)
  written(facts, renewed)
  redis.call('PUBLISH', ARGV[5], ARGV[2])
  return place
end
