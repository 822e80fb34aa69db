-- lendable reports whether the caller may have the bucket for itself: it has something to send now, and nobody else has been here
-- of late. waiting is how many of the caller's names are queued; bias is how long nobody else must have been here, times three.
local function lendable(b, caller, waiting, n, bias)
  if bias <= 0 or waiting <= 0 or n <= 0 or b.shared and now - b.shared <= bias / 3 then return false end
  if redis.call('ZCARD', KEYS[QUEUE]) ~= waiting then return false end
  for _, name in ipairs(redis.call('ZRANGE', KEYS[FLIGHT], 0, -1)) do
    if split(name) ~= caller then return false end
  end
  return true
end

-- lend gives the bucket to the caller, who knows which of its requests are in flight. Its names in the queue are void.
local function lend(b, caller)
  b.own, b.oend, b.want, b.loan = caller, now + LOAN, nil, b.loan + 1
  redis.call('DEL', KEYS[QUEUE])
end
