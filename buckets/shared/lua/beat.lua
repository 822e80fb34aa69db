-- beat says that a session is alive, renews its loans, and takes back those that it has no use for. KEYS: sessions, then the buckets
-- of the loans to renew, then those of the loans that end.

if not expect(1, 'zset') then return wrong end
local caller, lifetime = arg(), int()
redis.call('ZADD', KEYS[1], text(now + lifetime), caller)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
alive(1)
local reply = {0, now, redis.call('ZCARD', KEYS[1])}

local KEPT, WANTED, LOST = 0, 1, 2
local key = 1
for _ = 1, int() do
  key = key + 1
  local number, status = int(), LOST
  local b = load(key)
  if b and b.own == caller and b.loan == number then
    b.oend = now + LOAN
    status = b.want and WANTED or KEPT
    save(key, b)
  end
  wrong = nil -- one bucket that is not ours must not cost the others their loans
  reply[#reply + 1] = status
end

for _ = 1, int() do
  key = key + 1
  local y = readReturn()
  local b = load(key)
  if b then
    -- A bucket of which the session says nothing was in use when it closed.
    if y.limit < 0 and b.loan == y.number then
      expire(b)
    elseif y.limit >= 0 then
      restore(b, y)
    end
    save(key, b)
  end
  wrong = nil
end
return reply
