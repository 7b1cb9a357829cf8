-- Append the final event of a stream, at most once, even if memory is full. Loaded after stream.lua.
--
-- ARGV[7] data    ARGV[8] attempt number of the writer, or "" for any attempt
-- ARGV[9] event limit    ARGV[10] byte limit
-- Returns the result of placed(), or the reason for the refusal: "ended", "final", "stale".

if ended() then return 'ended' end
local facts = load()
local fence = tonumber(ARGV[8])
if facts and facts.final == 1 then return 'final' end
if facts and fence and fence < facts.fence then return 'stale' end
-- A full Redis refuses a script's first write only if it may need memory. EXPIRE needs none, and Redis allows
-- all writes after it. (The flag of Redis 7 for this is a syntax error in Redis 6.2.)
redis.call('EXPIRE', KEYS[2], ARGV[3])
facts = facts or create()
if fence then facts.fence = fence end
facts.final = 1
add(facts, 'f', ARGV[7])
trim(facts, tonumber(ARGV[9]), tonumber(ARGV[10]))
-- Stream and account may expire a sixtieth of their time too early: most calls are short.
return told(facts, 1 / 60)
