-- invalid counts invalid responses of an address in short slots of time.
-- KEYS: the address. ARGV: time limit, session, its count since it began, its count a period ago, length of the period,
-- length of a slot.
-- Reply: the count of the other sessions in the latest period.
local session, count, before = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local PERIOD, SLOT = tonumber(ARGV[5]), tonumber(ARGV[6])

if not expect(1, 'hash') then return wrong end
local slot = math.floor(now / SLOT)
local oldest, newest = slot - math.ceil(PERIOD / SLOT), slot + 1 -- later slots: the clock was set back

-- A field belongs to a session: its count since it began, then slots with the count of each.
local function read(name, text)
  local told, rest = string.match(text, '^(%d+)([%d :]*)$')
  if not told then return notOurs(1, 'has no counts in its field ' .. name) end
  local kept, sum = {}, 0
  for when, n in string.gmatch(rest, '(%d+):(%d+)') do
    if tonumber(when) >= oldest and tonumber(when) <= newest then
      table.insert(kept, {when = tonumber(when), n = tonumber(n)})
      sum = sum + tonumber(n)
    end
  end
  return tonumber(told), kept, sum
end

local others, told, mine = 0, before, {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local is, kept, sum = read(fields[i], fields[i + 1])
  if wrong then return wrong end
  if fields[i] == session then
    told, mine = math.max(is, before), kept
  else
    others = others + sum
    if sum == 0 then redis.call('HDEL', KEYS[1], fields[i]) end
  end
end

if count > told then
  local last = mine[#mine]
  if last and last.when == slot then
    last.n = last.n + count - told
  else
    table.insert(mine, {when = slot, n = count - told})
  end
  local text = string.format('%.0f', count)
  for _, m in ipairs(mine) do text = text .. string.format(' %.0f:%.0f', m.when, m.n) end
  redis.call('HSET', KEYS[1], session, text)
  alive(1, PERIOD + 2 * SLOT)
end
return {0, micros, others}
