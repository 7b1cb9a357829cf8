-- Common code of the scripts that write a stream, loaded before each of them.
--
-- KEYS[1]  the stream                     KEYS[2]  its facts (hash)
-- KEYS[3]  the session's index (zset)     KEYS[4]  the session (hash; the field "ended" makes it a tombstone)
-- ARGV[1]  epoch of a new stream
-- ARGV[2]  stream name    ARGV[3]  seconds the stream lives    ARGV[4]  seconds the index lives
-- ARGV[5]  channel that wakes readers
-- ARGV[6]  owner of a new stream; "" is the principal of its session
--
-- Facts: epoch, last (offset of the newest event), first (offset of the oldest stored event), bytes (stored data
-- that may be trimmed), fence (highest attempt that wrote), final (1 after the final event), kept (time when the
-- expiry was set, s), owner (charged for the size), answers (stored data that is never trimmed), noted (size in
-- the account).

-- Bytes of overhead of an event, and of a stream with its facts and its entries in index and account.
local EVENT, STREAM = 64, 5000
-- Change of size that is recorded in the account.
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

-- Events whose facts were evicted belong to an older stream: delete them. The deletion follows an HSET, because a
-- full Redis refuses a first HSET, but no write after one that it allowed.
local function create()
  local facts = new()
  store(facts)
  redis.call('DEL', KEYS[1])
  return facts
end

-- Answers ("f", and "a" in a batch with further answers to come) are never trimmed.
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

-- Store the facts and renew the full lifetime of the stream and its index entry.
local function keep(facts)
  facts.kept = now()
  store(facts)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
  redis.call('ZADD', KEYS[3], facts.kept + ARGV[3], 'stream:' .. ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. facts.kept)
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end

-- Store the facts of a written stream; renew all expiries, as keep() does, only if "renewed": most writes follow
-- another one closely. The first event creates the key of the events, so its expiry is always set. If that key
-- outlives the facts, create() deletes it.
local function written(facts, renewed)
  if renewed then return keep(facts) end
  store(facts)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end

-- Delete the oldest events except answers. Only answers remain before "first".
local function trim(facts, max_events, max_bytes)
  while facts.last - facts.first + 1 > max_events or facts.bytes > max_bytes do
    local oldest = redis.call('XRANGE', KEYS[1], facts.epoch .. '-' .. facts.first, '+', 'COUNT', 1)[1]
    local offset = tonumber(string.match(oldest[1], '%d+$'))
    local answers = is_answer(oldest[2][2])
    if offset >= facts.last then
      -- The newest event always stays, even if other software deleted the others.
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

-- Build the scripts' result: the position and, if the account needs an update, the owner and the stream's size.
-- Call it before storing the facts. "renewed": the lifetime of the stream is renewed.
local function placed(facts, renewed)
  local size = STREAM + facts.bytes + facts.answers + (facts.last - facts.first + 1) * EVENT
  if facts.owner == '' or not (renewed or math.abs(size - facts.noted) >= STEP) then
    return {facts.epoch, facts.last}
  end
  facts.noted = size
  return {facts.epoch, facts.last, facts.owner, size}
end

-- End a write: store the facts, wake readers. "share": the part of the lifetime after which it is renewed.
local function told(facts, share)
  local renewed = now() - facts.kept > tonumber(ARGV[3]) * share
  local place = placed(facts, renewed)
  written(facts, renewed)
  redis.call('PUBLISH', ARGV[5], ARGV[2])
  return place
end
