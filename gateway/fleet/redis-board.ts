import { RedisScript } from "../state/redis-script.ts";
import type { RedisState } from "../state/redis-state.ts";
import { type FleetBoard, FORGOTTEN_MS } from "./fleet-board.ts";
import { type GatewayReport, gatewayReportSchema, type SeenReport } from "./gateway-report.ts";

/*
 * One hash has the newest report of each gateway by its id: the store's time and the report as JSON. The script takes one
 * and returns the age and the text of all, of which it forgets those of gateways that are gone.
 */
const EXCHANGE_SCRIPT = new RedisScript(`
local request = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], request.id, string.format('%d', now) .. ' ' .. request.report)
redis.call('PEXPIRE', KEYS[1], ${FORGOTTEN_MS})
local reply = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local at, report = string.match(flat[i + 1], '^(%d+) (.*)$')
  if now - tonumber(at) > ${FORGOTTEN_MS} then
    redis.call('HDEL', KEYS[1], flat[i])
  else
    reply[#reply + 1] = string.format('%d', now - tonumber(at))
    reply[#reply + 1] = report
  end
end
return reply
`);

/** Carries reports through the store that gateways of several hosts share, by the store's own time. */
export class RedisBoard implements FleetBoard {
  readonly #state: RedisState;

  /** Makes the board of the gateway that is connected to `state`. */
  constructor(state: RedisState) {
    this.#state = state;
  }

  /** Tells the store the report. Resolves to all that it has; undefined while it is away. */
  async exchange(report: GatewayReport): Promise<readonly SeenReport[] | undefined> {
    try {
      const request = JSON.stringify({ id: report.id, report: JSON.stringify(report) });
      const reply = await this.#state.run(EXCHANGE_SCRIPT, ["fleet"], request);
      return Array.isArray(reply) ? seenIn(reply.map(String)) : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Returns the reports that can be read; a gateway of another version may write one that cannot. */
function seenIn(texts: readonly string[]): SeenReport[] {
  const seen: SeenReport[] = [];
  for (let at = 0; at + 1 < texts.length; at += 2) {
    const read = gatewayReportSchema.safeParse(JSON.parse(texts[at + 1] ?? ""));
    if (read.success) seen.push({ report: read.data, ageMs: Number(texts[at]) });
  }
  return seen;
}
