-- Renew the full lifetime of an existing stream. Loaded after stream.lua.
--
-- ARGV[7] refuse later writes of attempts below this number
-- Returns the result of placed(), or 0 if the stream does not exist.

local facts = load()
if not facts then return 0 end
facts.fence = math.max(facts.fence, tonumber(ARGV[7]))
local place = placed(facts, true)
keep(facts)
return place
