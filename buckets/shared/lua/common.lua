-- The first part of every script, after the constants of script.go. ARGV[1] is the time after which the script must not
-- run, because its caller has given up by then; 0 if not known. All times are milliseconds of the server's clock. A
-- reply begins with 0, or -1 if it was too late, and the time in microseconds.

-- Redis 5 and 6 refuse writes after TIME unless effects are replicated; later versions always do that.
if redis.replicate_commands then redis.replicate_commands() end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]
local notAfter = tonumber(ARGV[1])
if notAfter > 0 and now > notAfter then return {-1, micros} end

-- The error that stops the script because a key holds a foreign value.
local wrong

-- notOurs records what is wrong with the key of the given number, unless an error is recorded already.
local function notOurs(key, problem)
  wrong = wrong or redis.error_reply('RLKEY ' .. key .. ' ' .. problem .. ';')
end

-- expect reports whether a key is absent or has the given type, and otherwise records an error.
local function expect(key, kind)
  local is = redis.call('TYPE', KEYS[key]).ok
  if is == 'none' or is == kind then return true end
  notOurs(key, 'is a ' .. is .. ' where a ' .. kind .. ' belongs')
  return false
end

-- number reads a whole number from a field of a key; nil if it is absent. Lua's numbers are exact up to 2^53.
local function number(key, field, text)
  if not text then return nil end
  local n = tonumber(text)
  if not n or n ~= math.floor(n) or math.abs(n) > 2 ^ 53 then notOurs(key, 'has no number in its field ' .. field) end
  return n
end

local function alive(key, time) redis.call('PEXPIRE', KEYS[key], time or KEY_TIME) end

-- text formats a whole number: Lua would write large numbers with an exponent.
local function text(n) return string.format('%.0f', n) end

-- arg returns the next argument.
local at = 1
local function arg()
  at = at + 1
  return ARGV[at]
end
local function int() return tonumber(arg()) end

-- append appends the bytes of a string to a reply.
local function append(reply, bytes)
  for from = 1, #bytes, 1000 do
    local some = {string.byte(bytes, from, from + 999)}
    for i = 1, #some do reply[#reply + 1] = some[i] end
  end
end

-- live records that a session is alive. It returns the era, and whether the session knows that era; nil if a key is not
-- ours. sessions and era are the numbers of the keys. Arguments: how long the session lives from now on; until when the
-- server should know it to be alive; the era that it knows; 1 if it has noticed that this era must end. An era also
-- ends if the server has lost the session's lifetime or the number of a known era.
local function live(sessions, era, session)
  local lifetime, till, known, over = int(), int(), int(), int() == 1
  local before, is = redis.pcall('ZSCORE', KEYS[sessions], session), redis.pcall('GET', KEYS[era])
  if type(before) == 'table' and before.err then notOurs(sessions, 'is no sorted set') end
  if type(is) == 'table' and is.err then notOurs(era, 'is no string') else is = number(era, 'number', is or '0') end
  if wrong then return nil end
  over = over or now < till and (tonumber(before or 0) or 0) < till
  if is == 0 or is < known or is == known and over then
    is = math.max(is, known, now) + 1
    redis.call('SET', KEYS[era], text(is), 'PX', ERA_TIME)
  end
  redis.call('ZADD', KEYS[sessions], text(now + lifetime), session)
  return is, is == known
end
