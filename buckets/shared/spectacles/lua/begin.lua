-- The first part of claim.lua and report.lua. Keys: remaining requests, limit, global limit, our state of the route,
-- our requests in flight. Spectacles clients use only the first three. The first argument is the time after which the
-- script must have no effect, by the server's clock in milliseconds, 0 if that is not known.
local DAY = 86400000
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[1]) > 0 and now > tonumber(ARGV[1]) then return {-1, now} end

for i, kind in ipairs({'string', 'string', 'any', 'hash', 'zset'}) do
	local found = redis.call('type', KEYS[i])['ok']
	if kind ~= 'any' and found ~= 'none' and found ~= kind then return {-2, now, i, 1} end
end

-- whole returns the number in a text. It returns false (or nil) for everything except the whole numbers that Spectacles
-- clients and we write.
local function whole(text) return text and #text < 12 and string.match(text, '^%-?%d+$') and tonumber(text) end

local rem = redis.call('get', KEYS[1])
if rem and not whole(rem) then return {-2, now, 1, 2} end
rem = rem and whole(rem)
local limit = redis.call('get', KEYS[2])
if limit and (not whole(limit) or whole(limit) < 1) then return {-2, now, 2, 2} end
limit = limit and whole(limit)
local ttl = rem and redis.call('pttl', KEYS[1]) or -2

-- gen   number of the window; each new window increases it by 1
-- fin   end of the window, 0 if not known; ours = 1 if one of our responses named this end
-- dl    when a used-up counter is deleted if the end of its window is not known
-- seen  remaining requests at our last call; if there are more now, a new window has begun
-- hold  end of a hold after a 429
-- per   length of a window, according to responses
-- st    end, by Discord's clock, of the last window that a response named, 0 if none; prov = 1 if that is not this one
-- full  remaining requests when we opened the window, -1 if another client did; unk = 1 if we knew no limit then
-- at    time of our last call
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

-- text formats a whole number. Without it, Lua would write large numbers with an exponent.
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

-- The clock has gone back, perhaps because a replica took over. Move all expected times back by the same amount.
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
	-- Another client has opened a window. Our requests in flight may count in this window.
	x.gen, x.prov, x.dl, x.fin, x.ours, x.full, x.unk = x.gen + 1, 1, 0, 0, 0, -1, 0
	lower(rem - flying)
elseif not rem then
	local known = math.max(x.ours == 1 and x.fin or 0, x.hold)
	if known > now then put(0, known - now) end -- evicted in the window, or another client has set a wrong expiry
end
if rem and ttl > 0 then
	if x.ours == 0 then x.fin = now + ttl
	elseif x.fin > now and now + ttl > x.fin + 1 then expire(x.fin - now) end -- another client has set a later end
end

-- finish stores the state. Our keys and the limit expire a day after their last use.
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

