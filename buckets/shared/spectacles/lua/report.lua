-- Reports events. Arguments after the first: lease, then seven for each report: name of the request, kind, gen of the
-- window in which the request got its permit (-1: it got none), limit, remaining requests, wait, stamp. Reply: 0, now,
-- remaining requests (-1: no window is open), time to the end of the window (0: unknown).
local LIMITED, REFUSED, GLOBAL, NOTHING, UNSENT, ADOPT, HOLD = 1, 2, 3, 4, 5, 6, 7
local lease = tonumber(ARGV[2])

local function forget()
	redis.call('del', KEYS[1])
	rem, ttl, x.fin, x.ours, x.dl, x.full = false, -2, 0, 0, 0, -1
end

-- held returns the later one of t and the end of the hold.
local function held(t) return math.max(t, x.hold) end

-- named returns the end of this window if a response has named it, otherwise 0.
local function named() return x.ours == 1 and x.fin or 0 end

-- firstWord records the first response that names this window. If the response names the previous window, we opened
-- this window too early, and both end at the same time.
local function firstWord(remaining, wait, stamp)
	if x.unk == 1 then
		local value = math.min(remaining, limit - 1) - flying
		if value > rem then redis.call('incrby', KEYS[1], text(value - rem)); rem = value end
		x.unk = 0
	end
	lower(math.min(rem, remaining))
	endsAt(held(math.max(named(), now + wait)))
	x.st, x.prov = stamp, 0
	x.per = math.max(wait, x.per * 0.8)
end

local JITTER = 5 -- ms by which the end of one window may differ between two responses, by Discord's clock

local function limited(name, gen, charged, remaining, wait, stamp)
	local tolerance = math.max(JITTER, x.per / 4)
	-- later is the time between the end of the last window that a response named and the end of this response's window,
	-- by Discord's clock if possible.
	local known = stamp > 0 and x.st > 0
	local later = known and stamp - x.st or now + wait - x.fin
	if not rem then
		if known and later <= JITTER then return end -- the response names a window that has ended
		open(math.min(remaining, limit - 1) - flying, -1, wait)
		firstWord(remaining, wait, stamp)
	elseif x.prov == 1 and gen == x.gen then
		firstWord(remaining, wait, stamp)
	elseif charged and (later > tolerance or x.prov == 1 and (later > JITTER or not known)) then
		-- The request counts, or may count, in a later window, so it stays charged until that window has ended.
		redis.call('zadd', KEYS[5], text(now + wait), name)
		flying = flying + 1
	elseif x.prov == 0 and (known and later >= -tolerance or not known and gen == x.gen) then
		lower(math.min(rem, remaining))
		if known and later > JITTER then -- each request moves the end
			x.st = stamp
			endsAt(math.max(x.fin, held(now + wait)))
		elseif ttl < 0 or x.ours == 0 or ttl > wait and (not known or later >= -JITTER) then
			endsAt(held(now + wait))
		end
	end
end

for i = 3, #ARGV, 7 do
	local name, kind, gen = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local quota, remaining = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
	local wait, stamp = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
	local charged = kind ~= ADOPT and redis.call('zrem', KEYS[5], name) == 1
	if charged then flying = flying - 1 end
	if gen < 0 then gen = x.gen end -- the request was sent without a permit
	if quota > 0 then
		limit = quota
		redis.call('set', KEYS[2], text(quota), 'px', DAY)
	end
	if kind == LIMITED then
		limited(name, gen, charged, remaining, wait, stamp)
	elseif kind == REFUSED or kind == HOLD then
		x.hold = math.max(x.hold, now + wait)
		local last = math.max(x.hold, rem and now + ttl or 0)
		if rem then
			lower(math.min(rem, 0))
		else
			open(0, -1)
		end
		endsAt(last)
	elseif kind == GLOBAL then
		if wait > redis.call('pttl', KEYS[3]) then redis.call('set', KEYS[3], '1', 'px', text(math.max(1, wait))) end
	elseif kind == UNSENT then
		if charged and gen == x.gen and rem then
			redis.call('incrby', KEYS[1], 1)
			rem = rem + 1
		end
	elseif kind == ADOPT then
		if rem and not redis.call('zscore', KEYS[5], name) then lower(rem - 1) end
		redis.call('zadd', KEYS[5], text(now + lease), name)
		flying = redis.call('zcard', KEYS[5])
	end
	local other = kind == NOTHING or kind == UNSENT or kind == GLOBAL
	if other and charged and gen == x.gen and rem and ttl == -1 and flying == 0 then
		-- No response to a request in flight can show when this window ends.
		if not limit or (kind == UNSENT and x.full >= 0 and rem >= x.full) then forget()
		elseif x.per > 0 then endsAt(held(now + x.per)) end
	end
end
finish()
return {0, now, rem and math.max(rem, 0) or -1, math.max(ttl, 0)}
