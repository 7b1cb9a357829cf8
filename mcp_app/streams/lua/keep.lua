-- Let an existing stream live for its full time from now. Begins with stream.lua. Returns 1, or 0 when absent.

if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
refresh()
return 1
