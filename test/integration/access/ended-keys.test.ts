import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { ANSWER_PATHS, endOf } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { keyCommand } from "../../support/processes/key-command.ts";

/* Answers whose key is ended while they run. */

let service: ScriptedService;

beforeAll(async () => {
  service = await startScriptedService();
});

afterAll(() => service.stop());

/** Begins a streamed and a folded answer on every path, for one new key; both wait for `passed`. */
async function answersOf(passed: Promise<void>) {
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "held ")];
    await passed;
    yield [blockEnd(0), finished()];
  });
  const before = service.engine.backend.requests.length;
  const key = await service.createKey("--name", "ended", "--models", "all");
  const id = service.gateway.keys.find(key)?.keyId ?? "";
  const auth = { authorization: `Bearer ${key}` };
  const streams = await Promise.all(ANSWER_PATHS.map((path) => service.post(path, { stream: true }, auth)));
  const bodies = streams.map((response) => readBody(response));
  for (const body of bodies) await body.until((text) => text.includes("held "));
  const whole = ANSWER_PATHS.map((path) => service.post(path, {}, auth));
  const all = 2 * ANSWER_PATHS.length;
  await becomes(async () => service.engine.backend.requests.length === before + all, "all run");
  return { id, auth, bodies, whole };
}

describe.each(["revoke", "disable"])("%s", (command) => {
  test("ending a key with --kill ends running answers, each in its format, and frees the engine", async () => {
    const { passed, open } = latch();
    const { id, auth, bodies, whole } = await answersOf(passed);
    await keyCommand(service.gateway.keyFile, command, id, "--kill");
    for (const [index, path] of ANSWER_PATHS.entries()) {
      const text = (await bodies[index]?.toEnd()) ?? "";
      expect(endOf(path, text)).toMatchObject({ end: "error" });
      expect(text).toContain("revoked");
    }
    for (const answer of whole) expect((await answer).status).toBe(403);
    const lines = service.gateway.log
      .map((line) => JSON.parse(line))
      .filter(({ key_id, detail }) => key_id === id && detail);
    expect(lines.map(({ detail }) => detail)).toEqual(Array(2 * ANSWER_PATHS.length).fill("key_ended"));
    expect((await service.post("/v1/messages", {}, auth)).status).toBe(401);
    await becomes(async () => service.engine.backend.load().busySlots === 0, "the engine is free");
    open();
  });

  test("ending a key without --kill lets running answers complete, and a later --kill ends them", async () => {
    const { passed, open } = latch();
    const { id, auth, bodies } = await answersOf(passed);
    await keyCommand(service.gateway.keyFile, command, id);
    // A generation before the gateway has loaded the change would wait for the end of the others.
    await becomes(async () => (await service.gateway.get("/v1/models", auth)).status === 401, "the key has ended");
    expect(service.gateway.log.some((line) => line.includes('"key_ended"') && line.includes(id))).toBe(false);
    await keyCommand(service.gateway.keyFile, command, id, "--kill");
    for (const [index, path] of ANSWER_PATHS.entries())
      expect(endOf(path, (await bodies[index]?.toEnd()) ?? "")).toMatchObject({ end: "error" });
    open();
  });
});
