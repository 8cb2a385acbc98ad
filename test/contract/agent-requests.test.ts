import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Modality } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";
import { valueAt } from "../support/http/value-at.ts";
import { PublishedContract, type PublishedDocument } from "../support/schemas/published-contract.ts";

/*
 * Requests of real agents and SDKs: keys, types and the order of blocks are theirs, the prose is filler.
 */

const FOLDER = join(import.meta.dirname, "../agent-requests");

type Recorded = {
  readonly path: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body: Record<string, unknown>;
  readonly expect: {
    readonly status: number | readonly number[];
    /** Substrings of the expected error message. */
    readonly errorIncludes?: readonly string[];
    /** `error.details.error_code`. */
    readonly errorDetails?: string;
  };
};

const RECORDED = readdirSync(FOLDER).map((file) => {
  const recorded: Recorded = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  return { name: file.replace(".json", ""), recorded };
});

function send(service: ScriptedService, { path, method, headers }: Recorded, body: object): Promise<Response> {
  const key = { authorization: `Bearer ${service.gateway.key}`, "content-type": "application/json" };
  const url = `${service.gateway.baseUrl}${path}`;
  return fetch(url, { method, headers: { ...headers, ...key }, body: JSON.stringify(body) });
}

const counts = (path: string) => path.includes("count_tokens");

/** Fails unless the text is a whole answer, in the requested form. */
function expectWhole(path: string, stream: boolean, text: string): void {
  if (counts(path)) expect(JSON.parse(text)).toEqual({ input_tokens: expect.any(Number) });
  else expect(text).toContain("Hello.");
  if (!stream) expect(typeof JSON.parse(text)).toBe("object");
  else expect(text).toMatch(/\ndata: (\[DONE\]|\{"type":"message_stop"\}|\{"type":"response\.completed".*\})\n\n$/);
}

/** Agents send other forms under the names of models that they know. */
const catalog = { aliases: { "gpt-5.5": "svc-glm53", "gpt-5.6-sol": "svc-glm53" } };

let service: ScriptedService;
let contract: PublishedContract;

beforeAll(async () => {
  service = await startScriptedService({ gateway: { catalog } });
  const document = await (await service.gateway.get("/openapi.json")).json();
  contract = new PublishedContract(document as PublishedDocument);
});

afterAll(() => service.stop());

/** Each of them streamed and folded, except those that only count. */
const REPLAYS = RECORDED.flatMap(({ name, recorded }) =>
  (counts(recorded.path) ? [false] : [true, false]).map((stream) => ({ name, recorded, stream })),
);

test.each(REPLAYS)("$name has the expected answer, stream $stream", async ({ recorded, stream }) => {
  const { path, body, expect: expected } = recorded;
  const response = await send(service, recorded, counts(path) ? body : { ...body, stream });
  const text = await response.text();
  expect([expected.status].flat(), text).toContain(response.status);
  if (response.status === 200) {
    expectWhole(path, stream, text);
    expectPublished(path, { body, stream, text });
    return;
  }
  expect(contract.replies(path, response.status, JSON.parse(text)), text).toBe(true);
  const error = valueAt(JSON.parse(text), "error");
  for (const words of expected.errorIncludes ?? []) expect(valueAt(error, "message")).toContain(words);
  if (expected.errorDetails) expect(valueAt(error, "details", "error_code")).toBe(expected.errorDetails);
});

/** Fails unless the schema of `GET /openapi.json` accepts the request, and all of its answer. */
function expectPublished(
  path: string,
  sent: { readonly body: object; readonly stream: boolean; readonly text: string },
) {
  expect(contract.takes(path, sent.body)).toBe(true);
  if (sent.stream) expect(contract.unknownFrames(path, sent.text)).toEqual([]);
  else expect(contract.replies(path, 200, JSON.parse(sent.text)), sent.text).toBe(true);
}

describe("with hosted tools left out and an engine with image input", () => {
  let lenient: ScriptedService;

  beforeAll(async () => {
    lenient = await startScriptedService({
      engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] },
      gateway: { catalog, formats: { responses: { unsupportedTools: "skip" } } },
    });
  });

  afterAll(() => lenient.stop());

  const codex = RECORDED.filter(({ name }) => name.startsWith("codex-"));

  test.each(codex)("$name is answered with its default settings", async ({ recorded }) => {
    const response = await send(lenient, recorded, recorded.body);
    const text = await response.text();
    expect(response.status, text).toBe(200);
    expectWhole(recorded.path, true, text);
    expect(lenient.lastRequest().tools.map((tool) => tool.name)).not.toContain("web_search");
  });
});
