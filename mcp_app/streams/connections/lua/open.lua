-- Create a stream if it does not exist. Loaded after stream.lua.
--
-- ARGV[7...] field, value ... to set in the session, if it exists (may be none)
-- Returns the result of placed() with offset 0, or "ended".

if ended() then return 'ended' end
local facts = load()
local created = not facts
facts = facts or new()
local place = placed(facts, true)
place[2] = 0
keep(facts)
if created then redis.call('DEL', KEYS[1]) end
if ARGV[7] and redis.call('EXISTS', KEYS[4]) == 1 then redis.call('HSET', KEYS[4], unpack(ARGV, 7)) end
return place
