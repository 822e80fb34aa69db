-- beat reports that a session is alive. KEYS: sessions, wants, era.
-- Reply: the era; the number of live sessions; the session's loans that others need, as length and name of each.

local caller = arg()
local era = live(1, 3, caller)
if wrong or not expect(2, 'set') then return wrong end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
alive(1)
alive(3, ERA_TIME)
local reply = {0, micros, era, redis.call('ZCARD', KEYS[1])}
for _, wanted in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local owner, bucket = string.match(wanted, '^(%S+) (.+)$')
  if owner == caller then
    redis.call('SREM', KEYS[2], wanted)
    reply[#reply + 1] = #bucket
    append(reply, bucket)
  end
end
return reply
