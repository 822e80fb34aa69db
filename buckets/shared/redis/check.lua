-- Tries the commands that scripts use, and checks the marker: a key which says that all keys with the same prefix are
-- ours. KEYS: the marker; a key that no program uses. ARGV: the marker's value; the marker's life in milliseconds; the
-- commands to try, as JSON; a channel. Reply: what INFO says about the memory; then, for each failure, the command and
-- the error. The command "key" means that the marker is wrong.

local reply = {''}

local function failed(what, said)
  reply[#reply + 1] = what
  reply[#reply + 1] = said
end

local places = {['$2'] = KEYS[2], ['$3'] = ARGV[4]}

for _, words in ipairs(cjson.decode(ARGV[3])) do
  for i, word in ipairs(words) do words[i] = places[word] or word end
  local answer = redis.pcall(unpack(words))
  if type(answer) == 'table' and answer.err then failed(words[1], answer.err) end
end
if #reply > 1 then return reply end

local kind = redis.call('TYPE', KEYS[1]).ok
local found = kind == 'string' and redis.call('GET', KEYS[1])
if kind == 'none' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif found == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif found then
  failed('key', 'is ' .. string.format('%q', string.sub(found, 1, 40)))
else
  failed('key', 'is a ' .. kind)
end

local memory = redis.pcall('INFO', 'memory')
if type(memory) == 'string' then reply[1] = memory end
return reply
