-- The queue of a bucket: a sorted set of names, by number. Those of one session that have the same number, because they came
-- back to the head, are ordered by name, which has leading zeros for that.

-- enqueue queues a name, behind all others or ahead of them. One that came back to the head stands behind others of its session
-- that did.
local function enqueue(b, name, session, ahead)
  if redis.call('ZSCORE', KEYS[QUEUE], name) then return end
  local score
  if not ahead then
    b.back = b.back + 1
    score = b.back
  else
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', KEYS[QUEUE], '-inf', '(0')) do
      if split(other) == session then score = redis.call('ZSCORE', KEYS[QUEUE], other) end
    end
    if not score then
      b.front = b.front - 1
      score = b.front
    end
  end
  redis.call('ZADD', KEYS[QUEUE], tonumber(score), name)
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
