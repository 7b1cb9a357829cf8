-- Return the number of places in use. KEYS[1] the places (zset: holder, end of lease in ms).

local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
