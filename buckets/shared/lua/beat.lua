-- beat says that a session is alive. KEYS: sessions, wants.
-- Reply: whether the session was forgotten; how many are alive; the names of buckets that others want back, each behind its length.

local caller, lifetime, known = arg(), int(), int()
local forgotten = live(1, caller, lifetime, known)
if wrong or not expect(2, 'set') then return wrong end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
alive(1)
local reply = {0, micros, forgotten, redis.call('ZCARD', KEYS[1])}
for _, wanted in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local owner, bucket = string.match(wanted, '^(%S+) (.+)$')
  if owner == caller then
    redis.call('SREM', KEYS[2], wanted)
    reply[#reply + 1] = #bucket
    append(reply, bucket)
  end
end
return reply
