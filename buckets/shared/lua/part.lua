-- The sum of all parts and of all cooling amounts never exceeds the limit. A part grows only here, by a free amount,
-- and its user learns of that from the reply. It shrinks when its user reports a smaller one: the difference cools
-- down, because requests sent with it still count. A user that is silent for its life loses its part, which cools down,
-- too.
local user, seq, acked, latest = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known, ends, asked = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local has, peak, need = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local holds, leaves = tonumber(ARGV[12]), ARGV[13] == '1'
local CLAIMS, LIFE, COOL = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local prefix, message = ARGV[17], ARGV[18]

local LISTENS = 3 * LISTEN_PERIOD -- life of a user that only needs holds

local users, cooling = {}, {}
local state = {born = 0, last = 0, apart = 0, claims = 0, hold = 0}

local function load()
  if not expect(1, 'hash') then return end
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local name, text = fields[i], fields[i + 1]
    local id = string.match(name, '^u:(.+)$')
    if id then
      local s, part, wants, limit, till = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
      if not s then return notOurs(1, 'has no part in its field ' .. name) end
      users[id] = {id = id, seq = tonumber(s), part = tonumber(part), need = tonumber(wants), limit = tonumber(limit), till = tonumber(till)}
    elseif name == 'cool' then
      for amount, till in string.gmatch(text, '(%d+) (%d+)') do
        table.insert(cooling, {amount = tonumber(amount), till = tonumber(till)})
      end
    elseif state[name] then
      state[name] = number(1, name, text) or 0
    end
  end
end

load()
if wrong then return wrong end
local me = users[user]
if latest > 0 and now > latest or me and seq <= me.seq then return {0, micros, 1, state.born, 0, 0, 0, 0, 0} end

-- Is this state the one that the user knows?
local old = state.born
local lost = old > 0 and (old == ends or state.last > now + 1000 or acked > 0 and old == known and (not me or me.seq < acked))
if lost then
  redis.call('DEL', KEYS[1])
  users, cooling, me = {}, {}, nil
  state = {born = 0, last = 0, apart = 0, claims = 0, hold = 0}
end
if state.born == 0 then
  state.born = now
  while state.born == known or state.born == old do state.born = state.born + 1 end
  lost = lost or known > 0 or has > 0
else
  lost = lost or known > 0 and known ~= state.born or has > 0 and (not me or me.till <= now)
end

local function cool(amount, till)
  if amount > 0 and till > now then table.insert(cooling, {amount = amount, till = till}) end
end

local gone = {}
local function lapse()
  local rest = {}
  for _, c in ipairs(cooling) do
    if c.till > now then table.insert(rest, c) end
  end
  cooling = rest
  for id, u in pairs(users) do
    if u.till <= now and id ~= user then
      users[id] = nil
      table.insert(gone, 'u:' .. id)
      cool(u.part, u.till + COOL)
    end
  end
end
lapse()

-- A part that was given but never used, because the reply was lost, is free at once. After a loss it is set apart: an
-- old call may have claimed it before the clock was set back, and other users may have used it since.
if me then
  if now < state.claims then state.apart = state.apart + math.max(0, me.part - math.max(has, peak)) end
  cool(math.min(me.part, peak) - has, now + COOL)
  state.apart = math.max(0, state.apart - math.max(0, has - me.part))
else
  cool(peak - has, now + COOL)
  state.apart = math.max(0, state.apart - math.max(has, peak))
end
if leaves then
  users[user] = nil
  table.insert(gone, 'u:' .. user)
end
-- A user without a limit has no part to lose, and may be silent for longer.
me = {id = user, seq = seq, part = has, need = need, limit = asked, till = now + (asked > 0 and LIFE or LISTENS), fair = 0}
if not leaves then users[user] = me end

-- The users that share the limit, and those of them that need something, with their fair parts.
local limit, sharing, asking = asked, {}, {}
for _, u in pairs(users) do
  u.fair = 0
  if u.limit > 0 then
    table.insert(sharing, u)
    if u.need > 0 then table.insert(asking, u) end
    limit = limit > 0 and math.min(limit, u.limit) or u.limit
  end
end

local function sum(list, field)
  local total = 0
  for _, element in ipairs(list) do total = total + element[field] end
  return total
end

-- Time for claims runs from the loss, or from the call of a user that had to do without the server.
local from = known > 0 and known ~= state.born and state.born or now
if lost and now < from + CLAIMS then
  if now >= state.claims then
    state.apart = math.max(0, limit - sum(sharing, 'part') - sum(cooling, 'amount'))
  end
  state.claims = math.max(state.claims, from + CLAIMS)
end
if now >= state.claims then state.apart = 0 end

-- divide sets equal fair parts, but no more than each user needs, and returns the rest. The remainder of the division
-- goes to the users with the largest parts, so that their parts need not change.
local function divide()
  local n, left = #asking, limit
  if n > limit then -- they take turns
    table.sort(asking, function(a, b) return a.id < b.id end)
    local first = math.floor(now / LIFE) * limit % n
    for i, u in ipairs(asking) do u.fair = (i - 1 - first) % n < limit and 1 or 0 end
    return 0
  end
  table.sort(asking, function(a, b)
    if a.need ~= b.need then return a.need < b.need end
    if a.part ~= b.part then return a.part < b.part end
    return a.id < b.id
  end)
  for i, u in ipairs(asking) do
    u.fair = math.min(u.need, math.floor(left / (n - i + 1)))
    left = left - u.fair
  end
  return left
end

-- All users get the same share of the rest, and two more shares remain free for users that start or need more.
local left = divide()
local spare = math.floor(left / (#sharing + 2))

local function short(u) return math.max(0, u.fair - u.part) end

local needy = 0
for _, u in ipairs(asking) do needy = needy + short(u) end
local free = limit - sum(sharing, 'part') - sum(cooling, 'amount') - state.apart
if me.limit > 0 and not leaves then
  local grant = math.min(short(me), math.max(0, free))
  needy, free = needy - grant, free - grant
  -- A quarter of what the others do not need: many users may start at the same time, with few requests each.
  local more = math.min(me.fair + spare - me.part - grant, math.floor((free - needy) / 4))
  more = math.max(0, more)
  me.part = me.part + grant + more
  free = free - more
end

-- target returns what a user may use. It has to return its surplus if another user has too little, if nothing would be
-- free for a new user, or if the surplus is large.
local coming = free + sum(cooling, 'amount')
local function target(u)
  local due = u.fair + spare
  if u.part > due and (needy > coming or coming < spare or u.part - due >= math.max(2, limit / 20)) then return due end
  return u.part
end

local extended = holds > 0 and now + holds > state.hold + 10
if holds > 0 then state.hold = math.max(state.hold, now + holds) end
for id, u in pairs(users) do
  if id ~= user and (extended or u.limit > 0 and target(u) < u.part) then
    redis.call('PUBLISH', prefix .. id, message)
  end
end

local wait = BEAT_PERIOD
if short(me) > 0 then
  if needy > coming then wait = 250 end
  for _, c in ipairs(cooling) do wait = math.min(wait, c.till - now) end
  if state.apart > 0 then wait = math.min(wait, state.claims - now) end
end

-- comes returns when a user without a part may get one: when an amount has cooled down or the others return theirs.
local function comes()
  if short(me) == 0 or me.part > 0 then return 0 end
  local first = state.apart > 0 and state.claims - now or COOL
  for _, c in ipairs(cooling) do first = math.min(first, c.till - now) end
  return math.max(1, first)
end

local function save()
  state.last = now
  local texts, fields = {}, {}
  for _, c in ipairs(cooling) do table.insert(texts, string.format('%.0f %.0f', c.amount, c.till)) end
  for name, value in pairs(state) do
    table.insert(fields, name)
    table.insert(fields, string.format('%.0f', value))
  end
  redis.call('HSET', KEYS[1], 'cool', table.concat(texts, ' '), unpack(fields))
  if not leaves then
    redis.call('HSET', KEYS[1], 'u:' .. user, string.format('%.0f %.0f %.0f %.0f %.0f', me.seq, me.part, me.need, me.limit, me.till))
  end
  for _, name in ipairs(gone) do redis.call('HDEL', KEYS[1], name) end
  alive(1, math.max(KEY_TIME, state.hold - now))
end
save()

return {0, micros, 0, state.born, target(me), #sharing, math.max(0, state.hold - now), math.max(10, wait), comes()}
