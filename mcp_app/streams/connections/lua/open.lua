-- Create a stream when it is absent. Begins with stream.lua.
--
-- Returns what placed() does, with the offset before the first event, or "ended".

if ended() then return 'ended' end
local facts = load() or create()
local place = placed(facts, true)
place[2] = 0
keep(facts)
return place
