-- Loans: a bucket that one session has for itself. They are numbered, so that one that is returned late does no harm.

-- SETTLE is how long it takes after an outage until all sessions have noticed that it is over. Until then they may send what
-- nobody knows of.
local SETTLE = 1200

-- recall takes in what somebody knew of a bucket whose state may be older, or lost: the window that he knew of is waited out, and
-- then one request goes first.
local function recall(b, limit, period, rest)
  if limit > 0 and not b.lim then
    b.lim, b.rem, b.per, b.wper, b.prov, b.fin = limit, limit, period, period, 0, now
  end
  if rest > 0 and b.lim then
    b.rem, b.fin = math.min(b.rem, 0), math.max(b.fin or 0, now + rest)
  end
  b.probing = 1
end

-- ended takes a loan back. Whoever had it can no longer return it as it is.
local function ended(b)
  b.own, b.oend, b.want, b.extra, b.loan = '', nil, nil, nil, b.loan + 1
end

-- expire ends a loan that was not returned in time. What was sent with it is not known.
local function expire(b)
  ended(b)
  b.fin, b.prov, b.probing, b.probe = nil, 0, 1, ''
end

-- restore takes in the state of a loan that is returned. Requests in flight are not in it. Returning twice is harmless.
local function restore(b, y)
  if y.number == b.back_of then return end
  if y.number == b.loan then
    local extra = b.extra or 0
    b.back_of = b.loan
    ended(b)
    b.gen, b.probe, b.probing = b.gen + 1, '', y.probing
    if y.limit <= 0 and y.unlimited ~= 1 and b.lim then -- others have found it out meanwhile
      b.rem = b.rem - y.used
    else
      b.prov, b.fin = 0, now + y.rest
      b.free = y.unlimited == 1 and now + FREE or nil
      b.lim, b.rem = nil, nil
      if y.limit > 0 then b.lim, b.rem = y.limit, y.limit - y.used end
      if y.period > 0 then b.per, b.wper = y.period, y.period end
      b.past, b.stamp = math.max(b.past or 0, y.rest > 0 and 0 or y.stamp), y.rest > 0 and y.stamp or 0
    end
    if b.lim then b.rem = b.rem - extra end
  elseif y.alone == 1 then
    recall(b, y.limit, y.period, math.max(y.rest, SETTLE))
  elseif y.used > 0 or y.rest > 0 then
    recall(b, y.limit, y.period, y.rest)
  end
  hold(b, y.hold, y.class)
end
