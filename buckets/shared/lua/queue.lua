-- The queue of a bucket: a sorted set of names, by when their requests arrived, in microseconds of the server's clock.

-- enqueue queues a name whose request arrived so many microseconds ago.
local function enqueue(name, age)
  if redis.call('ZSCORE', KEYS[QUEUE], name) then return end
  redis.call('ZADD', KEYS[QUEUE], text(clock[1] * 1000000 + clock[2] - age), name)
end

-- wake lets the sessions of the first names in the queue look again, eight others than the caller at most.
local function wake(channels, bucket, caller, names)
  if names <= 0 then return end
  local woken, sessions = {[caller] = true}, 0
  for _, name in ipairs(redis.call('ZRANGE', KEYS[QUEUE], 0, math.min(names, 64) - 1)) do
    local session = split(name)
    if not woken[session] and sessions < 8 then
      woken[session], sessions = true, sessions + 1
      redis.call('PUBLISH', channels .. session, 'wake ' .. bucket)
    end
  end
end

-- serve grants permits to the caller's names among the first in the queue, and keeps the places of others. It returns the names. Those of
-- dead sessions, and the caller's below low, are removed when they come to the head.
local function serve(b, caller, low, n, lease)
  local granted, kept = {}, 0
  while true do
    local head = redis.call('ZRANGE', KEYS[QUEUE], kept, kept + 63)
    for _, name in ipairs(head) do
      local session, ticket = split(name)
      if not lives(session) or session == caller and ticket < low then
        redis.call('ZREM', KEYS[QUEUE], name)
      elseif #granted + kept >= n or #granted >= 500 then
        return granted
      elseif session == caller then
        redis.call('ZREM', KEYS[QUEUE], name)
        redis.call('ZADD', KEYS[FLIGHT], text(now + lease), name)
        if b.lim then b.rem = b.rem - 1 end
        if b.probing == 1 then b.probe = name end
        granted[#granted + 1] = ticket
      else
        kept = kept + 1
      end
    end
    if #head == 0 then return granted end
  end
end
