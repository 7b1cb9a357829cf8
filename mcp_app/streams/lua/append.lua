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
if now() - facts.kept > tonumber(ARGV[3]) / 8 then
  keep(facts)
else
  -- Most appends come soon after another. The events' key is new with the first of them, so it always gets its
  -- expiry; should it outlive the facts by a little, create() clears it away.
  store(facts)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
redis.call('PUBLISH', ARGV[5], ARGV[2])
return {facts.epoch, facts.last}
