-- Reports a hold of the global limit. Key: the global limit. Arguments: the time after which the script must have no
-- effect, as in begin.lua; the length of the hold (ms). Reply: 0, now.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[1]) > 0 and now > tonumber(ARGV[1]) then return {-1, now} end
local wait = tonumber(ARGV[2])
if wait > redis.call('pttl', KEYS[1]) then redis.call('set', KEYS[1], '1', 'px', string.format('%.0f', wait)) end
return {0, now}
