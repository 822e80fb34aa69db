-- What is kept of a bucket: a hash. Times are those of the server, what is absent is empty.

local NUMBERS = {
  'born',    -- when it was made: says whether it is the one that a caller knows
  'gen',     -- number of the window; grows, also if the state is lost, as it starts at the time
  'lim',     -- requests per window; absent: not known
  'rem',     -- how many more may leave in this window
  'fin',     -- when the window is certainly over
  'prov',    -- 1: fin is a guess, as no answer of this window has come yet
  'per',     -- length of a window, as seen
  'wper',    -- the same of this very window
  'stamp',   -- the name that Discord gives this window: when it ends by its clock. Only compared with others
  'past',    -- the largest of earlier windows
  'slides',  -- 1: names of windows move while they are open
  'open',    -- when the last call came
  'free',    -- until when there is no limit
  'hold',    -- until when nothing may leave, after a 429
  'class',   -- of that 429
  'probing', -- 1: one request has to succeed before the others leave
  'oend',    -- when the loan ends
  'loan',    -- number of the loan, the latest or the next
  'back_of', -- number of the loan that was returned last
  'want',    -- when somebody else wanted the loan, last
  'extra',   -- requests of others that were counted while it is lent, of which its owner knows nothing
  'shared',  -- when a session came that was not the one before
}
local TEXTS = {
  'own',     -- the session it is lent to
  'user',    -- the session that came last
  'probe',   -- the request that has to succeed, if it is out
}

local FIELDS = {}
for _, field in ipairs(NUMBERS) do FIELDS[#FIELDS + 1] = field end
for _, field in ipairs(TEXTS) do FIELDS[#FIELDS + 1] = field end

local LOAN = 3000      -- how long a loan lasts that is not renewed
local FREE = 60000     -- how long it is believed that there is no limit
local STEP = 1000      -- by how much a clock may go back before that is more than jitter
local PERIOD = 1000    -- length of a window as long as none was seen


-- fresh is a bucket of which nothing is known.
local function fresh()
  return {born = now, gen = now, loan = now, own = '', user = '', probe = ''}
end

-- load reads a bucket, nil if it is absent or not ours.
local function load(key)
  if not expect(key, 'hash') then return nil end
  local raw = redis.call('HMGET', KEYS[key], unpack(FIELDS))
  if not raw[1] then
    if redis.call('EXISTS', KEYS[key]) == 1 then notOurs(key, 'is a hash without the field born') end
    return nil
  end
  local b = {}
  for i, field in ipairs(FIELDS) do
    if i <= #NUMBERS then
      if raw[i] and raw[i] ~= '' then b[field] = number(key, field, raw[i]) end
    else
      b[field] = raw[i] or ''
    end
  end
  for _, field in ipairs({'born', 'gen', 'loan'}) do
    if not b[field] then notOurs(key, 'has no number in its field ' .. field) end
  end
  if b.lim and b.lim < 1 then notOurs(key, 'has no limit in its field lim') end
  if b.lim and not b.rem then notOurs(key, 'has no number in its field rem') end
  if wrong then return nil end
  return b
end

local function save(key, b)
  b.open = now
  local all = {}
  for i, field in ipairs(FIELDS) do
    local value = b[field] or ''
    if i <= #NUMBERS and value ~= '' then value = text(value) end
    all[#all + 1] = field
    all[#all + 1] = value
  end
  redis.call('HMSET', KEYS[key], unpack(all))
  alive(key, math.max(IDLE, (b.fin or 0) - now + IDLE, (b.hold or 0) - now + IDLE))
end

-- hold lets nothing leave for so long, and then one request first. It is only ever extended.
local function hold(b, time, class)
  if time <= 0 then return end
  if now + time > (b.hold or 0) then b.hold, b.class = now + time, class end
  b.probing = 1
end
