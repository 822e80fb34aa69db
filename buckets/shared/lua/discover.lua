-- discover lets one process at a time find out the bucket hash of a route, and notifies the waiting processes.
-- KEYS: the route. ARGV: time limit, session, name of the asking discovery, verb (ask, keep, found), life of the
-- permission, life of the hash, prefix of channels, message, the hash if found and known.
-- Reply: 1 if the permission is given, when to ask again, the hash if it is known.
local session, who, wants = ARGV[2], ARGV[3], ARGV[4]
local LEASE, HINT, WAITS = tonumber(ARGV[5]), tonumber(ARGV[6]), 60000
local prefix, message, found = ARGV[7], ARGV[8], ARGV[9]

if not expect(1, 'hash') then return wrong end
local state = redis.call('HMGET', KEYS[1], 'hash', 'own', 'till')
local hash, own, till = state[1], state[2], number(1, 'till', state[3])
if wrong then return wrong end
if own and (not till or till <= now or till > now + LEASE) then own = false end -- expired, or the clock was set back

local function tell()
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local id = string.match(fields[i], '^w:(.+)$')
    if id then
      if id ~= session then redis.call('PUBLISH', prefix .. id, message) end
      redis.call('HDEL', KEYS[1], fields[i])
    end
  end
end

if wants == 'found' then
  if found ~= '' then
    redis.call('HSET', KEYS[1], 'hash', found)
    redis.call('HDEL', KEYS[1], 'own', 'till')
    alive(1, HINT)
    tell()
  elseif own == who then
    redis.call('HDEL', KEYS[1], 'own', 'till')
    tell()
  end
  return {0, micros, 0, 0}
end

if hash then
  alive(1, HINT)
  return {0, micros, 0, 0, string.byte(hash, 1, -1)}
end
if own and own ~= who then
  if wants == 'ask' then redis.call('HSET', KEYS[1], 'w:' .. session, now) end
  return {0, micros, 0, math.max(10, math.min(till - now, BEAT_PERIOD))}
end
redis.call('HSET', KEYS[1], 'own', who, 'till', string.format('%.0f', now + LEASE))
alive(1, WAITS)
return {0, micros, 1, 0}
