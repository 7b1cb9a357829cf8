-- Let an existing stream live for its full time from now. Begins with stream.lua. Returns 1, or 0 when absent.

local facts = load()
if not facts then return 0 end
keep(facts)
return 1
