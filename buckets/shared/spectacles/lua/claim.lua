-- Arguments: lease, number of permits wanted, names. A name that was granted by a call whose reply was lost is granted
-- again.
-- Reply: wait, now, gen, limit (0: unknown), remaining requests, time to the end of the window (0: unknown), period,
-- rest of the global limit, then for each name 1 if it is granted.
local lease, wanted = tonumber(ARGV[2]), tonumber(ARGV[3])
local granted, count, wait = {}, 0, 0

local function grant(i)
	granted[i], count = 1, count + 1
end

for i = 4, #ARGV do
	granted[i - 3] = 0
	if redis.call('zscore', KEYS[5], ARGV[i]) then grant(i - 3) end
end

local function fly(i)
	redis.call('zadd', KEYS[5], text(now + lease), ARGV[i + 3])
	flying = flying + 1
	grant(i)
end

local lock = redis.call('pttl', KEYS[3])
if rem and rem <= 0 and ttl == -1 and x.dl > 0 and now >= x.dl and flying == 0 then
	rem, x.dl = false, 0 -- the clients that used it up have not returned
end

if count >= wanted then
	wait = 0
elseif lock >= 0 then
	wait = math.max(1, lock)
elseif ttl == 0 then
	wait = 1 -- in its last millisecond the counter still exists, but seems to have no expiry
else
	if not rem then
		local value = (limit or 1) - flying
		if value > 0 then
			open(value, value)
			x.unk = limit and 0 or 1
		end
	end
	local before = rem
	for i = 1, #ARGV - 3 do
		if count < wanted and granted[i] == 0 and rem and rem > 0 then
			fly(i)
			rem = rem - 1
		end
	end
	if rem and rem < before then redis.call('decrby', KEYS[1], text(before - rem)) end
	if count < wanted then
		-- The requests in flight will show when the window ends, or may use up the next one. So look again well before
		-- the end of a period: soon if its length is not known, and less often the longer the wait takes.
		if rem and ttl == -1 and x.dl == 0 then x.dl = now + lease end
		if rem and ttl > 0 then wait = ttl + 1
		elseif rem and limit and x.per > 0 then wait = math.min(250, math.max(10, x.per / 8))
		elseif rem then wait = math.min(250, math.max(10, (now - (x.dl - lease)) / 4))
		else wait = math.min(250, math.max(10, x.per / 20)) end
	end
end
if rem and (rem > 0 or ttl >= 0) then x.dl = 0 end
finish()

local reply = {math.ceil(wait), now, x.gen, limit or 0, rem or -1,
	math.max(0, x.fin - now), math.ceil(x.per), math.max(0, lock)}
for i = 1, #granted do table.insert(reply, granted[i]) end
return reply
