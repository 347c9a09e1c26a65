"""Lua scripts. KEYS: the partition's hash, and the sorted set of its keys. ARGV[1]: deadline."""

from typing import Final

LATE: Final = "LAKEBED_LATE"
"""Prefix of the error for a missed deadline."""

_IN_TIME: Final = f"""
local now = redis.call('TIME')
if now[1] * 1000000 + now[2] > tonumber(ARGV[1]) then
  return redis.error_reply('{LATE} the write came after its deadline')
end
"""

# A hash field contains the version, 16 bytes, followed by the value.
SET: Final = (
    _IN_TIME
    + """
local there = redis.call('HGET', KEYS[1], ARGV[2])
local condition = ARGV[4]
if condition == 'absent' and there then return 0 end
if condition == 'exists' and not there then return 0 end
if condition == 'version' and not (there and string.sub(there, 1, 16) == ARGV[5]) then return 0 end
if not there then redis.call('ZADD', KEYS[2], 0, ARGV[2]) end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
"""
)

SET_MANY: Final = (
    _IN_TIME
    + """
for place = 2, #ARGV, 2 do
  redis.call('ZADD', KEYS[2], 0, ARGV[place])
  redis.call('HSET', KEYS[1], ARGV[place], ARGV[place + 1])
end
return 1
"""
)

DELETE: Final = (
    _IN_TIME
    + """
local there = redis.call('HGET', KEYS[1], ARGV[2])
if ARGV[3] ~= '' and not (there and string.sub(there, 1, 16) == ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[2])
return 1
"""
)

SCAN: Final = """
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
if #keys == 0 then return {keys, {}} end
return {keys, redis.call('HMGET', KEYS[1], unpack(keys))}
"""
