-- Append an event: check, number, trim, expire and wake atomically. Loaded after stream.lua.
--
-- ARGV[7] kind    ARGV[8] data    ARGV[9] attempt number of the writer
-- ARGV[10] event limit    ARGV[11] byte limit
-- Returns the result of placed(), or the reason for the refusal: "ended", "final", "stale".

if ended() then return 'ended' end
local facts = load()
local fence = tonumber(ARGV[9])
if facts and facts.final == 1 then return 'final' end
if facts and fence < facts.fence then return 'stale' end
facts = facts or create()
facts.fence = fence
add(facts, ARGV[7], ARGV[8])
trim(facts, tonumber(ARGV[10]), tonumber(ARGV[11]))
return told(facts, 1 / 8)
