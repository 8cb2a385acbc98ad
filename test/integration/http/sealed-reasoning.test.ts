import { describe, expect, test } from "vitest";
import { newSealingKey } from "../../../gateway/sealing/sealing-key.ts";
import { blockEnd, delta, finished, reasoningStart, started, textStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { valueAt } from "../../support/http/value-at.ts";

/* Sealed reasoning that callers carry from one request to the next. */

const THOUGHT = "The sky is blue.";
const ASKED = { role: "user", content: "Why?" };

const service = serviceOfFile({}, () => [
  [started(), reasoningStart(0), delta(0, THOUGHT), blockEnd(0)],
  [textStart(1), delta(1, "Because."), blockEnd(1), finished()],
]);

const givenBack = () =>
  service
    .lastRequest()
    .messages.flatMap(({ parts }) =>
      parts.flatMap(({ kind }) => (kind?.$case === "reasoning" ? [kind.value.text] : [])),
    );

const OMITTED = { max_tokens: 100, thinking: { type: "adaptive", display: "omitted" } };

async function messagesTurn(model = "svc-qwen"): Promise<{ readonly content: readonly { signature?: string }[] }> {
  return (await service.reply("/v1/messages", { ...OMITTED, model, messages: [ASKED] })) as never;
}

async function statusWith(model: string, content: unknown, auth = {}): Promise<number> {
  const messages = [ASKED, { role: "assistant", content }, ASKED];
  const response = await service.post("/v1/messages", { ...OMITTED, model, messages }, auth);
  await response.text();
  return response.status;
}

describe("D12 withheld reasoning of messages", () => {
  test("withheld reasoning of messages is left out for another model, as when an agent changes it in mid-session, and no turn fails", async () => {
    const { content } = await messagesTurn();
    expect(JSON.stringify(content)).not.toContain(THOUGHT);
    expect(await statusWith("svc-glm53", content)).toBe(200);
    expect(givenBack()).toEqual([]);
    expect(await statusWith("svc-qwen", content)).toBe(200);
    expect(givenBack()).toEqual([THOUGHT]);
  });

  test("withheld reasoning of messages is left out for another tenant", async () => {
    const { content } = await messagesTurn();
    const key = await service.createKey("--name", "other", "--models", "all");
    expect(await statusWith("svc-qwen", content, { authorization: `Bearer ${key}` })).toBe(200);
    expect(givenBack()).toEqual([]);
  });

  test("withheld reasoning of messages outlives a rotation as long as its key is kept, and is left out afterwards", async () => {
    const { sealing } = service.gateway;
    const [first, second] = [newSealingKey(), newSealingKey()];
    sealing.use([first]);
    const { content } = await messagesTurn();
    sealing.use([second, first]);
    expect(await statusWith("svc-qwen", content)).toBe(200);
    expect(givenBack()).toEqual([THOUGHT]);
    sealing.use([second]);
    const { unknown_key: before } = { ...sealing.openings };
    expect(await statusWith("svc-qwen", content)).toBe(200);
    expect(givenBack()).toEqual([]);
    expect(sealing.openings.unknown_key).toBe(before + 1);
    const lines = service.gateway.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request");
    expect(lines.at(-1)).toMatchObject({ sealed_unopened: 1 });
    expect(lines.at(-2)).not.toHaveProperty("sealed_unopened");
  });
});

test("D12 sealed reasoning of responses is nothing as the signature of messages", async () => {
  const include = ["reasoning.encrypted_content"];
  const signature = valueAt(await service.reply("/v1/responses", { include }), "output", 0, "encrypted_content");
  expect(typeof signature).toBe("string");
  const content = [
    { type: "thinking", thinking: "", signature },
    { type: "text", text: "Because." },
  ];
  expect(await statusWith("svc-qwen", content)).toBe(200);
  expect(givenBack()).toEqual([]);
});
