-- Claims permits for requests. Arguments after the first: lease, number of permits wanted, names of requests. If a name
-- already has a permit, from a call whose reply was lost, it gets the permit again. Reply: wait until the next claim,
-- now, gen, limit (0: unknown), remaining requests, time to the end of the window (0: unknown), period, remaining time
-- of a global hold, then for each name 1 if it has a permit, otherwise 0.
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
	rem, x.dl = false, 0 -- the clients that used up the counter have not reported an end of the window
end

if count >= wanted then
	wait = 0
elseif lock >= 0 then
	wait = math.max(1, lock)
elseif ttl == 0 then
	wait = 1 -- the counter is in its last millisecond, in which it still exists
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
		-- The responses to the requests in flight will show when the window ends. So claim again well before a period has
		-- passed. If the length of the period is not known, claim again soon at first, and less often the longer it takes.
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
