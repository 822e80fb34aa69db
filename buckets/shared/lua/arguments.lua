-- How callers write what they have to say of a bucket.

-- readReturn reads the state of a loan that is returned.
local function readReturn()
  return {
    number = int(), limit = int(), used = int(), rest = int(), period = int(), stamp = int(),
    hold = int(), class = int(), probing = int(), unlimited = int(), alone = int(),
  }
end

-- readOutcome reads what became of a request.
local function readOutcome()
  return {
    n = int(), gen = int(), unsent = int(), status = int(), class = int(), limited = int(), limit = int(), remaining = int(),
    wait = int(), after = int(), stamp = int(), hold = int(),
  }
end
