-- The queue of a bucket: a sorted set of names, by when their requests arrived, in microseconds of the server's clock.

-- enqueue queues a name whose request arrived so many microseconds ago.
local function enqueue(name, age)
  if redis.call('ZSCORE', KEYS[QUEUE], name) then return end
  redis.call('ZADD', KEYS[QUEUE], text(clock[1] * 1000000 + clock[2] - age), name)
end

-- serve grants permits to the caller's names among the first in the queue, and keeps the places of others. It returns the names, and the
-- other sessions who could have a permit. Names of dead sessions, and the caller's below low, are removed when they come to the
-- head.
local function serve(b, caller, low, n, lease)
  local granted, others, kept = {}, {}, 0
  while true do
    local head = redis.call('ZRANGE', KEYS[QUEUE], kept, kept + 63)
    for _, name in ipairs(head) do
      local session, ticket = split(name)
      if not lives(session) or session == caller and ticket < low then
        redis.call('ZREM', KEYS[QUEUE], name)
      elseif #granted + kept >= n or #granted >= 500 then
        return granted, others
      elseif session == caller then
        redis.call('ZREM', KEYS[QUEUE], name)
        redis.call('ZADD', KEYS[FLIGHT], text(now + lease), name)
        if b.lim then b.rem = b.rem - 1 end
        if b.probing == 1 then b.probe = name end
        granted[#granted + 1] = ticket
      else
        kept = kept + 1
        if #others < 8 and others[#others] ~= session then others[#others + 1] = session end
      end
    end
    if #head == 0 then return granted, others end
  end
end
