import { setImmediate as turn } from "node:timers/promises";
import type { Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { Pace, Pacer } from "./pacer.ts";
import { type Directive, nowUs, parseDirective, stamp } from "./requests.ts";
import { startSseOrigin } from "./sse-origin.ts";

const pacers = new Map<string, Pacer>();

function paceOf({ eventsPerSecond, phases }: Directive): Pace | undefined {
  if (eventsPerSecond === 0) return undefined;
  const kind = `${eventsPerSecond}/${phases}`;
  const pacer = pacers.get(kind) ?? new Pacer(eventsPerSecond, phases);
  pacers.set(kind, pacer);
  return new Pace(pacer);
}

function directiveOf(request: GenerateRequest): Directive {
  const kind = request.messages.at(-1)?.parts.at(-1)?.kind;
  return parseDirective(kind?.$case === "text" ? kind.value.text : "");
}

const paced: Script = async function* (request): AsyncGenerator<readonly Event[]> {
  const directive = directiveOf(request);
  const { events, eventsPerWrite } = directive;
  const pace = paceOf(directive);
  try {
    yield [started(), textStart(0)];
    for (let sent = 0; sent < events; sent += eventsPerWrite) {
      if (sent > 0) await (pace ? pace.tick() : turn());
      const text = stamp(nowUs());
      yield Array.from({ length: Math.min(eventsPerWrite, events - sent) }, () => delta(0, text));
    }
    yield [blockEnd(0), finished()];
  } finally {
    pace?.end();
  }
};

const [, , host] = process.argv;
const engine = await startEngine(paced, {
  ...{ slots: 100_000, keepsRequests: false },
  ...(host !== undefined && { host }),
});
const ssePort = await startSseOrigin(paceOf);
process.on("disconnect", () => process.exit());
process.stdout.write(`ready ${JSON.stringify({ address: engine.address, ssePort })}\n`);
