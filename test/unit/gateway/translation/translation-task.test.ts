import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../../../gateway/catalog.ts";
import { ApiError } from "../../../../gateway/errors.ts";
import { ROUTES } from "../../../../gateway/routes.ts";
import { Sealing } from "../../../../gateway/sealing/sealing.ts";
import { newSealingKey } from "../../../../gateway/sealing/sealing-key.ts";
import { conversationBehind, type Translated, translate } from "../../../../gateway/translation/translate.ts";
import { replyTo, resultOf, type TranslationTask } from "../../../../gateway/translation/translation-task.ts";
import { wholeBytes } from "../../../../gateway/upstream/request/encoded-request.ts";
import { FORMAT_SETTINGS } from "../../../support/events/encoding-context.ts";
import { parseJsonBody } from "../../../support/gateway/parse-json-body.ts";

const FOLDER = join(import.meta.dirname, "../../../agent-requests");
const KEY = newSealingKey();

function taskOf(operation: string, body: Buffer, more: Partial<TranslationTask> = {}): TranslationTask {
  const caller = {
    ...{
      requestId: "req_1",
      tenant: "t",
      cacheSalt: "salt",
      maxOutputTokens: undefined,
      usableModels: [],
      loadTests: false,
      priority: 0,
    },
    routingKey: new Uint8Array(32),
  };
  const order = { operation, caller, bodyBytes: body.length } as const;
  const common = { singleKeys: ["model"], settings: FORMAT_SETTINGS, catalog: DEFAULT_CATALOG };
  return { body, order, sealingKeys: [KEY], modelsWithImages: ["svc-qwen"], promptBounds: {}, ...common, ...more };
}

/** The result of a body on the main thread, or its error. */
function here(
  { order, sealingKeys, modelsWithImages, promptBounds }: TranslationTask,
  body: Buffer,
): Translated | ApiError {
  const surroundings = {
    ...{ sealing: new Sealing(sealingKeys), settings: FORMAT_SETTINGS, catalog: DEFAULT_CATALOG },
    acceptsImages: (model: string) => modelsWithImages.includes(model),
    promptBounds: (model: string) => promptBounds[model] ?? [],
  };
  return orError(() => translate(parseJsonBody(body), order, surroundings));
}

/** The result of a body on another thread, which receives only copies. */
function there(task: TranslationTask): Translated | ApiError {
  const { end } = structuredClone(replyTo(structuredClone(task)));
  if ("fault" in end) throw new Error(end.fault.error);
  return orError(() => resultOf(end, task.order));
}

function orError(run: () => Translated): Translated | ApiError {
  try {
    return run();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

describe("requests of real agents", () => {
  test.each(readdirSync(FOLDER))("%s has the same result on a thread as on the main thread", (file) => {
    const { path, body } = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
    const route = ROUTES.find((spec) => spec.path === path.split("?")[0]);
    if (!route) throw new Error("the path has no route");
    const bytes = Buffer.from(JSON.stringify({ ...body, model: "svc-qwen" }));
    const task = taskOf(route.operation, bytes);
    const [one, other] = [here(task, bytes), there(task)];
    if (!(one instanceof ApiError) && !(other instanceof ApiError)) {
      // Bytes are one kind of view here and another there.
      expect(Buffer.from(other.bytes).equals(Buffer.from(one.bytes))).toBe(true);
      expect({ ...other, bytes: 0 }).toEqual({ ...one, bytes: 0 });
    } else expect({ ...other }).toEqual({ ...one });
  });
});

test("what continues a conversation has the same result on a thread, to which its messages go once", () => {
  const frame = (input: readonly object[], more: object = {}) =>
    Buffer.from(JSON.stringify({ type: "response.create", model: "svc-qwen", input, ...more }));
  const first = frame([{ role: "user", content: "Hi." }]);
  const said = there(taskOf("responses_frame", first));
  const before = said instanceof ApiError ? undefined : conversationBehind(said);
  expect(before?.prompt.messages).toHaveLength(1);
  const next = frame([{ role: "user", content: "Go on." }], { instructions: "Be terse." });
  const task = taskOf("responses_frame", next);
  const continued = { ...task, order: { ...task.order, before } };
  const [one, other] = [here(continued, next), there(continued)];
  if (one instanceof ApiError || other instanceof ApiError) throw new Error("refused");
  expect(other.inserted?.messages).toBe(before?.prompt.messages);
  expect(Buffer.compare(wholeBytes(other), wholeBytes(one))).toBe(0);
  expect({ ...other, bytes: 0 }).toEqual({ ...one, bytes: 0 });
});

test("refusals come back whole", () => {
  const refused = (text: string) => there(taskOf("chat", Buffer.from(text)));
  expect(refused('{"model":"svc-qwen","messages":[{"role":"owner"}]}')).toMatchObject({
    code: "invalid_value",
    path: ["messages", 0, "role"],
  });
  expect(refused('{"model":')).toMatchObject({ code: "invalid_json", detail: "json_syntax" });
  expect(refused('{"model":"svc-qwen","model":"svc-glm53"}')).toMatchObject({ code: "bad_request" });
  expect(refused(`{"a":${"[".repeat(64)}`)).toMatchObject({ code: "bad_request", detail: "json_depth" });
});

test("a fault of this program comes back without the words of the error", () => {
  const { end } = replyTo(taskOf("list_models", Buffer.from("{}")));
  expect(end).toMatchObject({ fault: { error: "Error" } });
  expect(JSON.stringify(end)).not.toContain("takes no prompt");
});

test("returned reasoning is opened, and failures are counted and reported", () => {
  const sealing = new Sealing([KEY]);
  const foreign = new Sealing([newSealingKey()]);
  const scope = { tenant: "t", model: "svc-qwen", format: "responses" };
  const item = (sealed: string) => ({ type: "reasoning", summary: [], encrypted_content: sealed });
  const input = [
    { role: "user", content: "hi" },
    item(sealing.for(scope).seal("thought")),
    item(foreign.for(scope).seal("of another")),
  ];
  const reply = replyTo(taskOf("responses", Buffer.from(JSON.stringify({ model: "svc-qwen", input }))));
  expect(reply.openings).toEqual({ opened: 1, unknown_key: 1, refused: 0 });
  expect(reply.unknownKeys).toEqual(foreign.keyIds);
  expect("translated" in reply.end && Buffer.from(reply.end.translated.bytes).includes("thought")).toBe(true);
  sealing.opened(reply.openings, reply.unknownKeys);
  expect(sealing.openings).toEqual({ opened: 1, unknown_key: 1, refused: 0 });
});
