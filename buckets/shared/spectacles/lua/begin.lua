-- Keys: what remains, the limit, the global limit, our state of the route, our requests in flight.
-- The first argument is when the caller gives up, in milliseconds of this clock, 0 if it does not know the clock.
-- Clients of Spectacles use the first three keys as they always do.
local DAY = 86400000
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[1]) > 0 and now > tonumber(ARGV[1]) then return {-1, now} end

for i, kind in ipairs({'string', 'string', 'any', 'hash', 'zset'}) do
	local found = redis.call('type', KEYS[i])['ok']
	if kind ~= 'any' and found ~= 'none' and found ~= kind then return {-2, now, i, 1} end
end

-- Only whole numbers are Spectacles' or ours, and only those can be counted down in place.
local function whole(text) return text and #text < 12 and string.match(text, '^%-?%d+$') and tonumber(text) end

local rem = redis.call('get', KEYS[1])
if rem and not whole(rem) then return {-2, now, 1, 2} end
rem = rem and whole(rem)
local limit = redis.call('get', KEYS[2])
if limit and (not whole(limit) or whole(limit) < 1) then return {-2, now, 2, 2} end
limit = limit and whole(limit)
local ttl = rem and redis.call('pttl', KEYS[1]) or -2

-- gen   number of the window, counted up whenever one begins
-- fin   when it ends, 0 if that is not known; ours = 1 if one of our own responses said so
-- dl    when a used-up counter without an end is given up
-- seen  what remained when we looked last: it only grows in a new window
-- hold  until when a 429 forbids everything
-- per   length of a window, as responses said
-- st    Discord's time of the end of the last window that a response named, 0 if it did not; prov = 1 if none has told of this one yet
-- full  what remained when we opened the window, -1 if somebody else did; unk = 1 if it was opened without a limit
-- at    when we looked last
local FIELDS = {'gen', 'fin', 'ours', 'dl', 'seen', 'hold', 'per', 'st', 'prov', 'full', 'unk', 'at'}
local x = {}
local values = redis.call('hmget', KEYS[4], unpack(FIELDS))
for i, field in ipairs(FIELDS) do
	if values[i] and not tonumber(values[i]) then return {-2, now, 4, 2} end
	x[field] = tonumber(values[i] or '0')
end
if not values[1] then x.prov, x.full, x.seen = 1, -1, -1 end

local function expire(ms)
	ttl = math.max(1, math.ceil(ms))
	redis.call('pexpire', KEYS[1], ttl)
end

-- Numbers go to the engine as whole ones: Lua would write large ones with an exponent.
local function text(n) return string.format('%.0f', n) end

local function put(value, ms)
	rem, ttl = value, ms and math.max(1, math.ceil(ms)) or -1
	if ms then redis.call('set', KEYS[1], text(value), 'px', text(ttl))
	else redis.call('set', KEYS[1], text(value)) end
end

local function lower(value)
	if value < rem then redis.call('decrby', KEYS[1], text(rem - value)); rem = value end
end

local function endsAt(t)
	x.fin, x.ours = t, 1
	expire(t - now)
end

-- The clock went back, as that of a replica that took over may: what was to come earlier comes as much earlier now.
if x.at > now + 1000 then
	local back = x.at - now
	for _, field in ipairs({'fin', 'dl', 'hold'}) do x[field] = math.max(0, x[field] - back) end
	local flights = redis.call('zrange', KEYS[5], 0, -1, 'withscores')
	for i = 1, #flights, 2 do redis.call('zadd', KEYS[5], text(flights[i + 1] - back), flights[i]) end
	if ttl > back then expire(ttl - back) end
end

redis.call('zremrangebyscore', KEYS[5], '-inf', text(now))
local flying = redis.call('zcard', KEYS[5])

local function open(value, full, ms)
	x.gen, x.prov, x.dl, x.fin, x.ours, x.full, x.unk = x.gen + 1, 1, 0, 0, 0, full, 0
	put(value, ms)
end

if rem and ((x.fin > 0 and now > x.fin) or (x.at > 0 and rem > x.seen)) then
	-- Somebody else opened a window. What we have in flight may count in it.
	x.gen, x.prov, x.dl, x.fin, x.ours, x.full, x.unk = x.gen + 1, 1, 0, 0, 0, -1, 0
	lower(rem - flying)
elseif not rem then
	local known = math.max(x.ours == 1 and x.fin or 0, x.hold)
	if known > now then put(0, known - now) end -- lost in the middle of the window: evicted, or its life was set to nothing
end
if rem and ttl > 0 then
	if x.ours == 0 then x.fin = now + ttl
	elseif x.fin > now and now + ttl > x.fin + 1 then expire(x.fin - now) end -- somebody set it later than we know it to be
end

-- finish stores the state. Everything that is ours ends a day after its last use, the limit too.
local function finish()
	x.seen, x.at = rem or -1, now
	local fields = {}
	for _, field in ipairs(FIELDS) do
		table.insert(fields, field)
		table.insert(fields, text(x[field]))
	end
	redis.call('hset', KEYS[4], unpack(fields))
	redis.call('pexpire', KEYS[4], DAY)
	redis.call('pexpire', KEYS[5], DAY)
	redis.call('pexpire', KEYS[2], DAY)
end

