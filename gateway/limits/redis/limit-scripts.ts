import { RedisScript } from "../../state/redis-state.ts";

/*
 * The Lua scripts of the store. One hash holds all counts of a key, so that a decision is one script on one entry:
 *
 *   b|<name>              a bucket: level, time of the level, units per minute, capacity
 *   d|<name>              a total of a day: the day since the epoch, the used units
 *   p|<gateway>|<name>    the permits that a gateway holds: their number, time of the last change
 *   s|<gateway>           number of the newest question before which a gateway knows all outcomes, time of the last
 *   q|<gateway>|<number>  outcome of a later question, its time
 *
 * Fields with another prefix belong to a newer release, and are left unchanged.
 *
 * A gateway numbers its questions for each key from 1; the number makes a question idempotent. A charge whose answer was
 * lost is settled afterwards under its number: the due amount less the taken one is taken then, and
 * a late arrival has no effect. Outcomes: `1` taken, `0` refused, `f` no free permit, `x` settled or long known.
 *
 * Times are the store's own, in milliseconds since the epoch. Numbers of a reply are texts, because numbers of a script
 * lose their fractions.
 */

/** How long the store keeps the outcomes of questions, and a count without a charge: 6 hours, in milliseconds. */
const KEEP_MS = 6 * 3_600_000;

const COMMON = `
local request = cjson.decode(ARGV[1])
local now = request.now
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.17g', number) end
`;

/**
 * The script for all operations on the counts of one key. Its argument is JSON: a charge (`items`) or a settlement
 * (`questions`). It returns the outcome of a charge and three numbers for each item: the remaining units, the
 * milliseconds until the whole limit is available, and those until the item passes; then, if permits refused, the index
 * of the permit, from 1.
 */
export const KEY_SCRIPT = new RedisScript(`${COMMON}
local KEEP, DAY, MOST, ROUNDING = ${KEEP_MS}, 86400000, 31622400000, 1e-6
local fields, changed, gone = {}, {}, {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end

local function set(field, value)
  fields[field] = value
  changed[field] = value
end

local function drop(field)
  if fields[field] ~= nil then gone[#gone + 1] = field end
  fields[field] = nil
  changed[field] = nil
end

-- Outcomes of the questions of this gateway.
local own, questions = 's|' .. request.gateway, 'q|' .. request.gateway .. '|'
local done = math.max(request.done, tonumber(string.match(fields[own] or '0', '^%S+')))
for field in pairs(fields) do
  if string.sub(field, 1, #questions) == questions and tonumber(string.sub(field, #questions + 1)) <= done then
    drop(field)
  end
end

local function outcomeOf(question)
  if question <= done then return 'x' end
  return string.match(fields[questions .. text(question)] or '', '^%S')
end

local function mark(question, outcome)
  set(own, text(done) .. ' ' .. text(now))
  set(questions .. text(question), outcome .. ' ' .. text(now))
end

-- Counts, as they stand now.
local function current(name, rule)
  if rule.kind == 'day' then
    local today = math.floor(now / DAY)
    local day, used = string.match(fields['d|' .. name] or '', '^(%S+) (%S+)$')
    if not day or tonumber(day) ~= today then used = 0 end
    return { name = name, day = today, used = tonumber(used), total = rule.total }
  end
  local count = { name = name, level = rule.capacity, rule = rule }
  local level, at, perMinute, capacity = string.match(fields['b|' .. name] or '', '^(%S+) (%S+) (%S+) (%S+)$')
  if not level then return count end
  level, at, perMinute, capacity = tonumber(level), tonumber(at), tonumber(perMinute), tonumber(capacity)
  level = math.min(capacity, level + math.max(0, now - at) * perMinute / 60000)
  count.level = math.min(rule.capacity, level + math.max(0, rule.capacity - capacity))
  return count
end

local function ownRule(name)
  local perMinute, capacity = string.match(fields['b|' .. name] or '', '^%S+ %S+ (%S+) (%S+)$')
  return perMinute and { kind = 'bucket', perMinute = tonumber(perMinute), capacity = tonumber(capacity) }
end

local function take(count, amount)
  if count.day then
    count.used = math.max(0, count.used + amount)
  else
    count.level = math.min(count.rule.capacity, count.level - amount)
  end
end

local function store(count)
  if count.day then
    set('d|' .. count.name, text(count.day) .. ' ' .. text(count.used))
  else
    local parts = { text(count.level), text(now), text(count.rule.perMinute), text(count.rule.capacity) }
    set('b|' .. count.name, table.concat(parts, ' '))
  end
end

local function untilMidnight() return DAY - now % DAY end

local function waitFor(count, cost)
  if count.day then
    if count.used < count.total then return 0 end
    return untilMidnight()
  end
  local missing = math.min(cost, count.rule.capacity) - count.level
  if missing <= ROUNDING then return 0 end
  return math.ceil(missing * 60000 / count.rule.perMinute - ROUNDING)
end

-- Permits, of which those of gateways that no longer live are free. One that came in the same millisecond as the beat that
-- knew who lives may have come after it, of a gateway that lives.
local function permitsTaken(name)
  local live, sum = {}, 0
  for _, gateway in ipairs(request.live) do live[gateway] = true end
  for field, value in pairs(fields) do
    local gateway, of = string.match(field, '^p|([^|]*)|(.*)$')
    if gateway then
      local count, written = string.match(value, '^(%S+) (%S+)$')
      if gateway ~= request.gateway and not live[gateway] and tonumber(written) < request.seen then
        drop(field)
      elseif of == name then
        sum = sum + tonumber(count)
      end
    end
  end
  return sum
end

local function addPermits(name, number)
  local field = 'p|' .. request.gateway .. '|' .. name
  local count = tonumber(string.match(fields[field] or '0', '^%S+')) + number
  if count > 0 then set(field, text(count) .. ' ' .. text(now)) else drop(field) end
end

local function charge()
  local full
  for at, permit in ipairs(request.permits) do
    if not full and permitsTaken(permit.name) >= permit.limit then full = at end
  end
  local passed, counts, waits = not full, {}, {}
  for i, item in ipairs(request.items) do
    counts[i] = current(item.name, item.rule)
    waits[i] = (not full and item.cost) and waitFor(counts[i], item.cost) or 0
    passed = passed and waits[i] == 0
  end
  if passed then
    for _, permit in ipairs(request.permits) do addPermits(permit.name, 1) end
  end
  local reply = { passed and '1' or full and 'f' or '0' }
  for i, item in ipairs(request.items) do
    local count = counts[i]
    if passed and item.cost then take(count, item.cost) end
    if item.cost or fields[(count.day and 'd|' or 'b|') .. item.name] then store(count) end
    reply[#reply + 1] = text(count.day and count.total - count.used or count.level)
    reply[#reply + 1] = text(count.day and untilMidnight() or waitFor(count, count.rule.capacity))
    reply[#reply + 1] = text(waits[i])
  end
  if full then reply[#reply + 1] = text(full) end
  return reply
end

local function settle()
  local isNew = not outcomeOf(request.question)
  for _, question in ipairs(request.questions) do
    local outcome = outcomeOf(question.number)
    for _, part in ipairs(outcome == 'x' and {} or question.parts) do
      local rule = part.rule.kind == 'bucket' and ownRule(part.name) or part.rule
      local count = current(part.name, rule)
      take(count, part.due - (outcome == '1' and part.charged or 0))
      store(count)
    end
    mark(question.number, 'x')
  end
  if not isNew then return end
  if request.anew then
    for field in pairs(fields) do
      if string.sub(field, 1, 3 + #request.gateway) == 'p|' .. request.gateway .. '|' then drop(field) end
    end
  end
  for _, part in ipairs(request.permits) do addPermits(part.name, part.number) end
end

-- Leaves what carries something, and only for as long as it does.
local function keep()
  local ttl = KEEP
  for field, value in pairs(fields) do
    local kind = string.sub(field, 1, 1)
    if kind == 'b' then
      local level, at, perMinute, capacity = string.match(value, '^(%S+) (%S+) (%S+) (%S+)$')
      ttl = math.max(ttl, (capacity - level) * 60000 / perMinute - (now - at))
    elseif kind == 'd' then
      if tonumber(string.match(value, '^%S+')) < math.floor(now / DAY) then drop(field) else ttl = math.max(ttl, untilMidnight()) end
    elseif kind == 'p' then
      ttl = math.max(ttl, DAY)
    elseif (kind == 's' or kind == 'q') and field ~= own and string.sub(field, 1, #questions) ~= questions and now - tonumber(string.match(value, '%S+$')) > KEEP then
      drop(field)
    end
  end
  for field, value in pairs(changed) do redis.call('HSET', KEYS[1], field, value) end
  for _, field in ipairs(gone) do
    if fields[field] == nil then redis.call('HDEL', KEYS[1], field) end
  end
  redis.call('PEXPIRE', KEYS[1], text(math.floor(math.min(ttl, MOST))))
end

local reply = { 'x' }
if request.questions then
  settle()
else
  local known = outcomeOf(request.question)
  if known then return { known } end
  reply = charge()
  mark(request.question, reply[1])
end
keep()
return reply
`);

/**
 * The heartbeat of a gateway, on the entry of all gateways. Its argument is JSON. It returns the store's time, whether
 * the gateway was registered (`1` or `0`), and the names of all live gateways. If no gateway has sent a heartbeat for
 * longer than `silenceMs`, the store was unreachable: all gateways that were live then stay live.
 */
export const BEAT_SCRIPT = new RedisScript(`${COMMON}
local newest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or now)
if now - newest > request.silenceMs then
  for _, gateway in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], newest - request.leaseMs, '+inf')) do
    redis.call('ZADD', KEYS[1], text(now), gateway)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now - request.leaseMs))
local known = redis.call('ZSCORE', KEYS[1], request.gateway)
if request.leaves then
  redis.call('ZREM', KEYS[1], request.gateway)
else
  redis.call('ZADD', KEYS[1], text(now), request.gateway)
end
redis.call('PEXPIRE', KEYS[1], ${KEEP_MS})
local reply = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(reply, 1, known and '1' or '0')
table.insert(reply, 1, text(now))
return reply
`);
