-- swap replaces the state of a bucket if it is the one that the caller knows. KEYS: bucket, sessions, wants, era. A
-- state begins with its version (a life and a number in it) and the session that has the loan, "-" if it is shared.
-- Reply: the era; nothing more if it is not the caller's. Then the status; the number of the sessions asked about, and
-- how long each is alive; the state on the server if it differs, or how long the holder of the loan is alive.

local DONE, STALE, LENT = 0, 1, 2

local caller, bucket, channels = arg(), arg(), arg()
local era, current = live(2, 4, caller)
if wrong then return wrong end
if not current then return {0, micros, era} end
local wants, expected, value, ttl = int(), arg(), arg(), int()

-- refused reports whether a command failed, and records the error.
local function refused(key, kind, got)
  if type(got) ~= 'table' or not got.err then return false end
  if string.find(got.err, 'WRONGTYPE', 1, true) then
    notOurs(key, 'is no ' .. kind)
  else
    wrong = wrong or got
  end
  return true
end

local kept = redis.pcall('GET', KEYS[1])
if refused(1, 'string', kept) then return wrong end
local version, owner = '', '-'
if kept then
  version, owner = string.match(kept, '^(%d+ %d+) (%S+) ')
  if not version then
    notOurs(1, 'does not begin with a version')
    return wrong
  end
end

-- till returns until when a session is alive. It cuts times beyond SESSION_TIME: the clock may have been set back.
local function till(session)
  local at = tonumber(redis.call('ZSCORE', KEYS[2], session) or 0) or 0
  if at > now + SESSION_TIME then
    at = now + SESSION_TIME
    redis.call('ZADD', KEYS[2], text(at), session)
  end
  return at
end

if owner ~= '-' and owner ~= caller and till(owner) > now then
  if wants == 1 then
    redis.call('PUBLISH', channels .. owner, 'want ' .. caller .. ' ' .. bucket)
    if refused(3, 'set', redis.pcall('SADD', KEYS[3], owner .. ' ' .. bucket)) then return wrong end
    alive(3, 2 * SESSION_TIME)
  end
  return {0, micros, era, LENT, 0, till(owner) - now}
end

local reply = {0, micros, era, version == expected and DONE or STALE, int()}
for _ = 1, reply[5] do reply[#reply + 1] = math.max(till(arg()) - now, 0) end
if version == expected and value ~= '' then
  redis.call('SET', KEYS[1], value, 'PX', ttl)
  for _ = 1, int() do redis.call('PUBLISH', channels .. arg(), 'state ' .. #bucket .. ' ' .. bucket .. value) end
elseif kept then
  append(reply, kept)
end
return reply
