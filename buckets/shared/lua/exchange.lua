-- exchange carries out a call, see the Go type Call. KEYS contains the key of each step. ARGV contains the time after
-- which the call has no effect (ms, 0: no such time), and the guard. Then it contains for each step: the new value,
-- empty to load only; the version to replace, "*" for any; the life of the new value (ms); the message; the number of
-- channels; the channels. The reply contains 0, or -1 if the call is too late, and the time (µs). Then it contains for
-- each step: 1 if the step has stored its value, otherwise 0; how much longer the old value would have lived (ms); the
-- length of the old value and its bytes, or only -1 if the step has stored its value.

-- Redis 5 and 6 refuse writes after TIME unless they replicate the effects of a script; later versions always do.
if redis.replicate_commands then redis.replicate_commands() end

local clock = redis.call('TIME')
local reply = {0, clock[1] * 1000000 + clock[2]}
local latest = tonumber(ARGV[1])
if latest > 0 and clock[1] * 1000 + math.floor(clock[2] / 1000) > latest then return {-1, reply[2]} end

local at = 2
local function arg()
  at = at + 1
  return ARGV[at]
end

local function append(bytes)
  for from = 1, #bytes, 1000 do
    local some = {string.byte(bytes, from, from + 999)}
    for i = 1, #some do reply[#reply + 1] = some[i] end
  end
end

local function version(value) return string.match(value, '^(%S+) ') end

for step, key in ipairs(KEYS) do
  local value, expected, life, message, channels = arg(), arg(), arg(), arg(), tonumber(arg())
  local is = redis.pcall('GET', key)
  if type(is) == 'table' and is.err then
    if not string.find(is.err, 'WRONGTYPE', 1, true) then return is end
    return redis.error_reply('RLKEY ' .. step .. ' is no string;')
  end
  local was, left = '', 0
  if is then
    was, left = version(is), redis.call('PTTL', key)
    if not was then return redis.error_reply('RLKEY ' .. step .. ' does not begin with a version;') end
  end
  local replaced = value ~= '' and (expected == '*' or expected == was)
  if replaced then
    redis.call('SET', key, value, 'PX', life)
    was = version(value)
  end
  for _ = 1, channels do
    local channel = arg()
    if replaced then redis.call('PUBLISH', channel, message .. value) end
  end
  reply[#reply + 1] = replaced and 1 or 0
  reply[#reply + 1] = left
  if replaced then
    reply[#reply + 1] = -1
  else
    reply[#reply + 1] = is and #is or 0
    append(is or '')
  end
  if step == 1 and ARGV[2] ~= '' and ARGV[2] ~= was then break end
end
return reply
