-- Take calls from a rate, by the generic cell rate algorithm. If the clock was set back, callers wait as after
-- an empty burst.
--
-- KEYS[1] the theoretical arrival time of the next call, in microseconds
-- ARGV[1] microseconds between two calls    ARGV[2] calls of the burst    ARGV[3] calls wanted
-- Returns the number of calls taken, and 0 or the microseconds until one can be taken.

local emission, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now, tolerance = time[1] * 1000000 + time[2], emission * burst
local stored = tonumber(redis.call('GET', KEYS[1]) or 0)
local arrival = math.min(math.max(stored, now), now + tolerance)
local taken = math.max(0, math.min(wanted, math.floor((now + tolerance - arrival) / emission)))
arrival = arrival + taken * emission
if taken > 0 or arrival < stored then
  local life = math.ceil((arrival - now) / 1000) + 1
  redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', string.format('%.0f', life))
end
if taken > 0 then return {taken, 0} end
return {0, arrival + emission - now - tolerance}
