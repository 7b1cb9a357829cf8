-- Append the one final event of a stream, at most once, also when memory is full. Begins with stream.lua.
--
-- ARGV[7] data    ARGV[8] attempt number of the writer, or "" to finish whatever the attempt
-- ARGV[9] most events kept        ARGV[10] most bytes kept
-- Returns what placed() does, or the reason for the refusal: "ended", "final", "stale".

if ended() then return 'ended' end
local facts = load()
local fence = tonumber(ARGV[8])
if facts and facts.final == 1 then return 'final' end
if facts and fence and fence < facts.fence then return 'stale' end
-- A full Redis refuses a script's first write only if that write may need memory; EXPIRE does not, and what
-- follows it is let through. (Redis 7 has a flag for this that Redis 6.2 takes for a syntax error.)
redis.call('EXPIRE', KEYS[2], ARGV[3])
facts = facts or create()
if fence then facts.fence = fence end
facts.final = 1
add(facts, 'f', ARGV[7])
trim(facts, tonumber(ARGV[9]), tonumber(ARGV[10]))
-- A stream and an account that forget it a sixtieth of its life too early are true enough: most calls are over soon
-- after they began.
return told(facts, 1 / 60)
