-- What became of requests. A response that is told twice changes nothing the second time but what it may: remaining is only
-- ever lowered within a window, and a permit comes back only if it was still in flight.

local OK, USER, SHARED, SUB, GLOBAL, EDGE = 0, 1, 2, 3, 4, 5 -- classes

-- SKEW is by how much the times of responses may be apart that mean the same: they are rounded, and come from several machines.
local SKEW = 5

-- comesBack gives a permit back whose request was counted in an earlier window than it is charged to. Where names move with every
-- request (b.slides) an earlier one proves nothing.
local function comesBack(b, charged, older)
  if not (charged and older) or b.slides == 1 then return false end
  b.rem = b.rem + 1
  return true
end

-- headers takes in a response that carries limits. older: its permit is of an earlier window than the current one. It reports
-- whether requests may leave that could not before.
local function headers(b, o, charged, older)
  local fin = now + o.wait
  -- The end of the window by the server's clock is its name. Without it, the end by this clock has to do. Whoever is counted by a
  -- window was processed before its end and after that of the one before.
  local name, processed = now + o.wait, nil
  if o.stamp > 0 then name, processed = o.stamp, o.stamp - o.after end
  if not b.lim or (b.free or 0) > now then
    b.free = nil
    b.lim, b.per, b.wper = o.limit, o.after, o.after
    b.rem = math.min(o.remaining, o.limit - 1) - inflight()
    b.gen, b.fin, b.prov, b.stamp = b.gen + 1, fin, 0, name
    return true
  end
  local tolerance = math.max(SKEW, (b.wper or 0) / 4)
  local stamp, past = b.stamp or 0, b.past or 0
  if name <= past + tolerance and not (processed and processed >= past - SKEW) then
    if older then return comesBack(b, charged, older) end
    -- The window that was thought to be over is not.
    b.fin, b.prov, b.stamp = fin, 0, name
    b.rem = math.min(b.rem, o.remaining)
    return false
  end
  if stamp == 0 or b.prov == 1 then -- the first of this window
    b.fin, b.prov, b.stamp, b.wper = fin, 0, name, o.after
    b.per = math.max(o.after, (b.per or 0) - math.max((b.per or 0) - o.after, 0) / 5)
  elseif processed and processed < stamp - SKEW and name > stamp + SKEW then
    -- The window was not over, and yet its end has moved: it gives back one request after the other.
    b.fin, b.stamp, b.slides = math.max(b.fin, fin), name, 1
    b.per = math.max(b.per or 0, o.after)
  elseif name > stamp + tolerance then -- the server is a window ahead of us
    b.past = math.max(past, stamp)
    b.gen, b.fin, b.prov, b.stamp, b.wper = b.gen + 1, fin, 0, name, o.after
    b.lim = o.limit
    -- Those in flight may not be counted in what remains.
    b.rem = math.min(o.limit - 1, o.remaining) - inflight()
    return true
  elseif name < stamp - tolerance then
    -- An earlier window, if that was over when the current one began. Else the bucket gives back one request after the other, and this is
    -- one that was processed earlier.
    return comesBack(b, charged, older and name < stamp - (b.wper or 0) + SKEW)
  elseif name > stamp + SKEW then
    b.fin, b.stamp = math.max(b.fin, fin), name
  elseif b.slides ~= 1 then
    b.fin = math.min(b.fin, fin)
  end
  b.rem = math.min(b.rem + o.limit - b.lim, o.remaining)
  b.lim = o.limit
  return false
end

-- report takes in one outcome, and reports whether requests may leave that could not before.
local function report(b, o, name)
  local charged = redis.call('ZREM', KEYS[FLIGHT], name) == 1
  if b.own ~= '' then -- lent to somebody else, who does not know of it: kept for when it comes back
    if o.limited == 1 and o.class ~= SHARED and not b.lim then
      headers(b, o, false, false)
    elseif charged and o.unsent ~= 1 and o.class ~= GLOBAL and o.class ~= EDGE then
      b.extra = (b.extra or 0) + 1
    end
    if o.class == USER or o.class == SHARED then hold(b, o.hold, o.class) end
    return false
  end
  local freed = not b.lim
  if o.unsent == 1 or o.class == GLOBAL or o.class == EDGE then
    if charged and b.lim then b.rem = b.rem + 1 end
    freed = freed or charged
  elseif o.limited == 1 and o.class ~= SHARED then
    freed = headers(b, o, charged, o.gen ~= b.gen) or freed
  elseif not b.lim and o.status > 0 and o.status < 500 and o.class == OK then
    b.free = now + FREE
  end
  if b.lim and b.prov == 1 and o.unsent ~= 1 and o.limited ~= 1 and o.class == OK then
    -- Nothing is known of the window but that it began when this was processed, if no earlier: at the latest now.
    b.fin = math.max(b.fin, now + (b.per or PERIOD))
  end
  if o.class == USER or o.class == SHARED then
    hold(b, o.hold, o.class)
    if o.class == USER and b.lim then
      b.rem = math.min(b.rem, 0)
      b.fin = b.prov == 1 and now + o.hold or math.max(b.fin or 0, now + o.hold)
    end
  end
  if b.probe == name then
    b.probe = ''
    if o.class == OK and o.status >= 200 and o.status < 500 then b.probing = 0 end
    freed = true
  end
  return freed or b.prov == 1 -- perhaps a new window waits for it
end
