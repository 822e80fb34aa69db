-- The window of a bucket, and the permits that are in flight: a sorted set of names "session:number", by the end of their lease.

local BUCKET, QUEUE, FLIGHT, SESSIONS = 1, 2, 3, 4

-- split returns session and number of a name.
local function split(name)
  local session, n = string.match(name, '^(.*):(%d+)$')
  return session or name, tonumber(n) or 0
end

-- lives reports whether a session is alive.
local lifetimes = {}
local function lives(session)
  local life = lifetimes[session]
  if life == nil then
    life = (tonumber(redis.call('ZSCORE', KEYS[SESSIONS], session) or 0) or 0) > now
    lifetimes[session] = life
  end
  return life
end

local function inflight() return redis.call('ZCARD', KEYS[FLIGHT]) end

-- strangers returns how many requests of other sessions are in flight.
local function strangers(caller)
  local n = 0
  for _, name in ipairs(redis.call('ZRANGE', KEYS[FLIGHT], 0, -1)) do
    if split(name) ~= caller then n = n + 1 end
  end
  return n
end

-- sweep removes permits that nobody will report: of dead sessions, and of the caller's below low. They stay charged.
local function sweep(caller, low)
  for _, name in ipairs(redis.call('ZRANGE', KEYS[FLIGHT], 0, -1)) do
    local session, n = split(name)
    if not lives(session) or session == caller and n < low then redis.call('ZREM', KEYS[FLIGHT], name) end
  end
end

-- fly charges a request that is in flight without a permit from here.
local function fly(b, name, lease)
  if redis.call('ZADD', KEYS[FLIGHT], 'NX', text(now + lease), name) == 1 and b.lim then b.rem = b.rem - 1 end
end

-- advance opens a new window if the old one is certainly over, and reports whether that has to wait for an answer that is on its
-- way: requests in flight, of a window whose end is only guessed.
local function advance(b, caller, low)
  redis.call('ZREMRANGEBYSCORE', KEYS[FLIGHT], '-inf', now)
  local over = b.lim and (b.fin or 0) <= now
  if over or not b.lim or b.probing == 1 then sweep(caller, low) end
  if not over then return false end
  local n = inflight()
  if b.prov == 1 and n > 0 then return true end
  b.gen, b.prov, b.rem = b.gen + 1, 1, b.lim - n
  b.fin = now + (b.per or PERIOD)
  b.past, b.stamp = math.max(b.past or 0, b.stamp or 0), 0
  return false
end

-- room returns how many requests may leave now.
local function room(b, blocked)
  if (b.hold or 0) > now then return 0 end
  local n
  if (b.free or 0) > now then
    n = 1000000
  elseif not b.lim then
    n = math.max(1 - inflight(), 0)
  else
    n = blocked and 0 or math.max(b.rem, 0)
  end
  if b.probing == 1 then
    if b.probe ~= '' and redis.call('ZSCORE', KEYS[FLIGHT], b.probe) then return 0 end
    b.probe = ''
    n = math.min(n, 1)
  end
  return n
end
