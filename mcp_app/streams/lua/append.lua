-- Append one event: check, number, bound, expire and wake in one step. Begins with stream.lua.
--
-- ARGV[6] kind    ARGV[7] data    ARGV[8] attempt number of the writer
-- ARGV[9] most events kept        ARGV[10] most bytes kept
-- Returns {epoch, offset}, or the reason for the refusal: "ended", "final", "stale".

if ended() then return 'ended' end
local facts = load()
local fence = tonumber(ARGV[8])
if facts and facts.final == 1 then return 'final' end
if facts and fence < facts.fence then return 'stale' end
facts = facts or create()
facts.fence = fence
add(facts, ARGV[6], ARGV[7])
trim(facts, tonumber(ARGV[9]), tonumber(ARGV[10]))
store(facts)
refresh()
redis.call('PUBLISH', ARGV[5], ARGV[2])
return {facts.epoch, facts.last}
