-- exchange is everything a session and a bucket have to say to each other: what became of requests, who wants to send, who may.
-- KEYS: bucket, queue, permits in flight, sessions.

local caller, bucket, channels = arg(), arg(), arg()
local lease, lifetime, bias = int(), int(), int()
local low, waiting, first = int(), int(), int()
local known, knownLimit, knownPeriod, knownRest = int(), int(), int(), int()

local function named(n) return caller .. ':' .. string.format('%012d', n) end

if not (expect(QUEUE, 'zset') and expect(FLIGHT, 'zset') and expect(SESSIONS, 'zset')) then return wrong end
local b = load(BUCKET) or fresh()
if wrong then return wrong end

redis.call('ZADD', KEYS[SESSIONS], text(now + lifetime), caller)
redis.call('ZREMRANGEBYSCORE', KEYS[SESSIONS], '-inf', now)
alive(SESSIONS)

-- The clock went back: nothing that is kept means what it says. Whoever knows something says it again.
if (b.open or 0) > now + STEP then
  local again = fresh()
  if b.own ~= '' then again.own, again.loan, again.oend = b.own, b.loan, now + LOAN end
  b = again
  redis.call('DEL', KEYS[FLIGHT])
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', KEYS[SESSIONS], text(now + lifetime), '+inf')) do
    redis.call('ZADD', KEYS[SESSIONS], text(now + lifetime), session)
  end
end

local live = redis.call('ZCARD', KEYS[SESSIONS])

-- The caller knows another bucket than this one: the state was lost. It says again which requests are in flight.
if known > 0 and known ~= b.born then
  recall(b, knownLimit, knownPeriod, knownRest)
  save(BUCKET, b)
  return {0, now, 2, 0, b.born, b.gen, 1, 0, b.lim or 0, b.per or 0, math.max((b.fin or 0) - now, 0), 0, 0, 0, live, 0, 0, 0, 0, 0}
end

local freed, wasLent = false, b.own ~= ''
if int() == 1 then
  local owned = b.own == caller
  restore(b, readReturn())
  sweep(caller, low)
  if owned and b.own == '' and b.lim then b.rem = b.rem - strangers(caller) end
  freed = true
end
if b.own == caller then
  if b.lim then b.rem = b.rem - (b.extra or 0) end
  ended(b) -- it does not know of it: the reply was lost
elseif b.own ~= '' and (b.oend or 0) <= now then
  expire(b)
end
for _ = 1, int() do
  local n = int()
  fly(b, named(n), int())
end
for _ = 1, int() do
  local o = readOutcome()
  freed = report(b, o, named(o.n)) or freed
end
for _ = 1, int() do
  local name = named(int())
  redis.call('ZREM', KEYS[QUEUE], name)
  if redis.call('ZREM', KEYS[FLIGHT], name) == 1 then
    if b.lim then b.rem = b.rem + 1 end
    freed = true
  end
end
local held = int()
hold(b, held, int())
local late = {}
for _ = 1, int() do
  local n, age = int(), int()
  if redis.call('ZSCORE', KEYS[FLIGHT], named(n)) then
    late[#late + 1] = n -- granted before, and the reply was lost
  else
    enqueue(named(n), age)
  end
end

if b.user ~= caller then
  if b.user ~= '' then b.shared = now end
  b.user = caller
end

local blocked, n, left, granted, lent = false, 0, 0, {}, 0
if b.own ~= '' then
  lent = 2
  if waiting > 0 and now - (b.want or 0) > 500 then
    redis.call('PUBLISH', channels .. b.own, 'want ' .. bucket)
    b.want = now
  end
else
  blocked = advance(b, caller, low)
  if b.lim then b.rem = math.min(b.rem, b.lim - inflight()) end
  n = room(b, blocked)
  if lendable(b, caller, waiting, n, bias) then
    lend(b, caller)
    lent, left = 1, n
  else
    granted = serve(b, caller, low, n, lease)
    left = n - #granted
    for _, ticket in ipairs(late) do granted[#granted + 1] = ticket end
    if wasLent then
      wake(channels, bucket, caller, 64) -- they do not know the window yet
    elseif freed then
      wake(channels, bucket, caller, left)
    end
  end
end

-- How long the first of the caller's names that still wait will do so, and how many of others are ahead of it.
local ours = waiting - (n - left)
local rank = ours > 0 and redis.call('ZRANK', KEYS[QUEUE], named(first)) or nil
local again = 0 -- 1: names are not queued that the caller thinks are
if ours > 0 and lent ~= 1 and not rank then
  again = 1
  for _, ticket in ipairs(granted) do
    if ticket == first then again = 0 end
  end
end
if ours > 0 and (not rank or rank > 0) then
  -- The names of a session may stand in another order than it thinks, as one call takes longer than another: the first one counts.
  local head = redis.call('ZRANGE', KEYS[QUEUE], 0, math.min(rank or 64, 64) - 1)
  for i, name in ipairs(head) do
    if split(name) == caller then
      rank = i - 1
      break
    end
  end
  rank = rank or #head
elseif not rank then
  rank = redis.call('ZCARD', KEYS[QUEUE])
end
local rest = math.max((b.fin or 0) - now, 0)
local poll = math.max(25, math.min((b.per or PERIOD) / 10, 250))
local wait, class = 1, 0
if lent == 2 then
  wait = b.oend - now
elseif (b.hold or 0) > now then
  wait, class = b.hold - now, b.class or 0
elseif (b.free or 0) > now then
  wait = b.probing == 1 and poll or 1
elseif not b.lim then
  wait = 50
elseif blocked or b.probing == 1 and b.rem > 0 then
  wait = poll
elseif rank >= left then
  wait = rest + math.floor((rank - left) / b.lim) * (b.per or PERIOD)
end

save(BUCKET, b)
alive(QUEUE)
alive(FLIGHT, math.max(IDLE, lease))
local reply = {
  0, now, again, lent, b.born, b.gen, math.max(wait, 1), class, b.lim or 0, b.per or 0, rest, left, b.class or 0, inflight(), live,
  rank, math.max(redis.call('ZCARD', KEYS[QUEUE]) - ours, 0), math.max((b.hold or 0) - now, 0), b.loan, #granted,
}
for _, ticket in ipairs(granted) do reply[#reply + 1] = ticket end
if lent == 1 then
  local used = b.lim and math.max(b.lim - b.rem - inflight(), 0) or 0
  local state = {used, rest, b.stamp or 0, b.probing or 0, (b.free or 0) > now and 1 or 0}
  for _, value in ipairs(state) do reply[#reply + 1] = value end
end
return reply
