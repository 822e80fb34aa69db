-- beat says that a session is alive. KEYS: sessions. ARGV: limit, session, its time.
if not expect(1, 'zset') then return wrong end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
alive(1)
return {0, now, redis.call('ZCARD', KEYS[1])}
