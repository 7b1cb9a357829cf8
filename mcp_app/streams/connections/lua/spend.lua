-- Spend units of a budget, or return them if their number is negative. A count that Redis does not have begins with the units that are stored elsewhere.
--
-- KEYS[1] the units spent in this period
-- ARGV[1] units    ARGV[2] the budget, -1 for none    ARGV[3] milliseconds to keep the count
-- ARGV[4] the units stored elsewhere, -1 if unknown
-- Returns 1 if they were spent, 0 if too few are left, -1 if the stored units are needed; and the units spent.

local units, budget, stored = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local spent = tonumber(redis.call('GET', KEYS[1]) or stored)
if spent < 0 then return {-1, 0} end
local fits = budget < 0 or spent + units <= budget
if fits then spent = math.max(0, spent + units) end
redis.call('SET', KEYS[1], string.format('%.0f', spent), 'PX', ARGV[3])
return {fits and 1 or 0, spent}
