import { Agent, type IncomingHttpHeaders, request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixedSentence } from "../support/engine/scripted-backend.ts";
import { type RunningEngine, startEngine } from "../support/engine/start-engine.ts";
import { type RunningGateway, startGateway } from "../support/gateway/start-gateway.ts";
import { FULL } from "../support/requests/full-bodies.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../support/requests/minimal-bodies.ts";
import { JUNK_MARK, type Mutation, mutated } from "../support/requests/mutations.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { sizeOf } from "../support/size.ts";

/*
 * Valid bodies with a random fault: whatever the fault, the reply is complete, and never a server error.
 */

const PER_ENDPOINT = sizeOf({ quick: 40, exhaustive: 500, promised: 2_000 });
const CONCURRENT = 8;
/** Far above the time of any answer: a request that takes longer hangs. */
const HANG_MS = 20_000;

let engine: RunningEngine;
let gateway: RunningGateway;
const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });

beforeAll(async () => {
  engine = await startEngine(fixedSentence);
  gateway = await startGateway([engine.address]);
});

afterAll(async () => {
  agent.destroy();
  await gateway.stop();
  await engine.stop();
});

type Reply = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string };

function send(path: string, { contentType, body }: Mutation): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${gateway.key}`,
      "content-length": body.length,
      ...(contentType !== undefined && { "content-type": contentType }),
    };
    const options = { port: gateway.port, path, method: "POST", agent, headers, signal: AbortSignal.timeout(HANG_MS) };
    const sent = request(options, (response) => {
      const pieces: Buffer[] = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("error", reject);
      response.on("end", () => {
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(pieces).toString(),
        });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Returns the fault of a reply, or undefined. */
function faultOf(path: PostPath, { status, headers, text }: Reply): string | undefined {
  const id = headers["x-request-id"];
  if (typeof id !== "string" || !/^req_[0-9A-Za-z]{24,}$/.test(id) || headers["request-id"] !== id) return "request id";
  const type = headers["content-type"] ?? "";
  if (status === 200) return type.startsWith("text/event-stream") ? endOf(path, text) : objectFault(text);
  if (![400, 404, 413, 415].includes(status)) return `status ${status}`;
  if (!type.startsWith("application/json")) return "content type";
  const { error, ...rest } = JSON.parse(text);
  // The name of an unknown parameter is the path of the fault, and so is repeated.
  const named = error?.code === "unknown_parameter" ? String(error.param) : "";
  // So is an unknown model that resembles a known one.
  const shown = text.replaceAll(named, "").replace(/The model '[\w.:/-]{1,64}' does not exist/, "");
  if (shown.includes(JUNK_MARK)) return "repeats what was sent";
  if (typeof error?.message !== "string" || error.message === "" || typeof error.type !== "string") return "envelope";
  if (path.startsWith("/v1/messages"))
    return rest.type === "error" && rest.request_id === id ? undefined : "envelope B";
  return typeof error.code === "string" && "param" in error && Object.keys(rest).length === 0
    ? undefined
    : "envelope A";
}

function endOf(path: PostPath, text: string): string | undefined {
  const ends: Partial<Record<PostPath, string>> = {
    "/v1/chat/completions": "data: [DONE]\n\n",
    "/v1/messages": 'data: {"type":"message_stop"}\n\n',
    "/v1/responses": "}\n\n",
  };
  return text.endsWith(ends[path] ?? "?") ? undefined : "end of the stream";
}

function objectFault(text: string): string | undefined {
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null ? undefined : "no object";
}

describe.each(POST_PATHS)("%s", (path) => {
  test(`${PER_ENDPOINT} mutated bodies are all answered, none as a fault of ours`, async () => {
    const random = new SeededRandom(POST_PATHS.indexOf(path) + 1);
    const valid: readonly [object, ...object[]] = [
      FULL[path],
      FULL[path],
      { ...FULL[path], stream: false },
      MINIMAL[path],
    ];
    const faults: string[] = [];
    const statuses = new Map<number, number>();
    let count = 0;
    const worker = async () => {
      while (count < PER_ENDPOINT) {
        count += 1;
        const number = count;
        const mutation = mutated(random.pick(valid), random);
        const reply = await send(path, mutation);
        statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
        const fault = faultOf(path, reply);
        if (fault !== undefined) faults.push(`#${number} ${fault}: ${reply.text.slice(0, 300)}`);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
    expect(faults.slice(0, 5)).toEqual([]);
    // Both outcomes have occurred: bodies that stayed valid, and refusals.
    expect(statuses.get(200)).toBeGreaterThan(PER_ENDPOINT / 20);
    expect(statuses.get(400)).toBeGreaterThan(PER_ENDPOINT / 5);
    expect(engine.backend.load().busySlots).toBe(0);
    expect((await gateway.post(path, FULL[path])).status).toBe(200);
    expect((await gateway.post(path, MINIMAL[path])).status).toBe(200);
    expect(Reflect.get({}, "type")).toBeUndefined();
  }, 120_000);
});
