import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readGgufFileInfo } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { noPretrained, PRETRAINED_MODEL } from "../support/engine/pretrained.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf, hasDelta, textOf } from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import type { EngineProcess } from "../support/processes/engine-process.ts";
import { Fleet, healthy } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";
import { endsOf, openStreams } from "../support/processes/open-streams.ts";

/* Two nodes with pretrained weights behind a gateway: answers in all formats, also while a node is killed. */

const SYSTEM = "You are a helpful assistant.";

const fleet = new Fleet(afterAll);

function asked(path: AnswerPath, text: string, tokens: number): object {
  const common = { temperature: 0, stream: true };
  if (path === "/v1/responses")
    return bodyFor(path, text, { ...common, instructions: SYSTEM, max_output_tokens: tokens });
  if (path === "/v1/messages") return bodyFor(path, text, { ...common, system: SYSTEM, max_tokens: tokens });
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: text },
  ];
  return bodyFor(path, text, { ...common, messages, max_tokens: tokens });
}

describe.skipIf(noPretrained !== "")("pretrained weights behind a gateway", () => {
  let nodes: EngineProcess[];
  let gateway: GatewayProcess;
  const weights = { kind: "llama", modelPath: PRETRAINED_MODEL, contextTokens: 4096, slots: 8, threads: 1, gpu: false };
  beforeAll(async () => {
    nodes = await fleet.engines(2, weights);
    gateway = await fleet.inFrontOf(nodes, { lbPolicy: "round_robin" });
  });

  test.each(ANSWER_PATHS)("pretrained weights behind a gateway answer %s", async (path) => {
    const text = await (await gateway.post(path, asked(path, "What is the capital of France?", 24))).text();
    expect(endOf(path, text)).toEqual({ end: "complete" });
    expect(textOf(path, text)).toContain("Paris");
  });

  test("pretrained weights go on with answers of all formats whose node is killed, behind what their callers have", async () => {
    const bodies = await Promise.all(
      ANSWER_PATHS.map(async (path, index) => {
        const response = await gateway.post(path, asked(path, `Tell a long story about ${index} rivers.`, 60));
        const body = readBody(response);
        await body.until((text) => hasDelta(path, text));
        return { path, body };
      }),
    );
    const before = bodies.map(({ path, body }) => textOf(path, body.text()));
    await nodes[0]?.kill();
    const ends = await Promise.all(bodies.map(({ body }) => body.toEndOrCut()));
    for (const [index, { path }] of bodies.entries()) {
      const { text, cut } = ends[index] ?? { text: "", cut: true };
      expect(endOf(path, text, cut)).toEqual({ end: "complete" });
      const said = textOf(path, text);
      expect(said.startsWith(before[index] ?? "-")).toBe(true);
      expect(said.length).toBeGreaterThan(100);
    }
    expect(await gateway.stat("svc_continuations_total", 'outcome="went_on"')).toBeGreaterThan(0);
  });

  test("pretrained weights go on at a node of another release, whose template differs in a rule that the prompts do not use", async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-template-"));
    fleet.onEnd(() => rmSync(folder, { recursive: true }));
    const { metadata } = await readGgufFileInfo(PRETRAINED_MODEL);
    const templatePath = join(folder, "later.jinja");
    const rule = "{% if tools %}Tools: {{ tools | tojson }}{% endif %}";
    writeFileSync(templatePath, `${rule}${metadata.tokenizer.chat_template ?? ""}`);
    const [earlier, later] = await Promise.all([
      fleet.engine("earlier", weights),
      fleet.engine("later", { ...weights, templatePath }),
    ]);
    const listed = fleet.endpointFile();
    listed.list([earlier]);
    const front = await fleet.gateway({ type: "file", path: listed.path });
    await healthy(front, earlier.address);

    const fields = (path: AnswerPath) => asked(path, "Tell a long story about a river.", 80);
    const begun = await openStreams(front, 8, { fields });
    listed.list([earlier, later]);
    await healthy(front, later.address);
    const before = begun.map(({ path, body }) => textOf(path, body.text()));
    await earlier.kill();
    const ends = await endsOf(begun);
    expect(ends.map(({ end }) => end)).toEqual(Array(8).fill("complete"));
    for (const [at, { text }] of ends.entries()) expect(text.startsWith(before[at] ?? "-")).toBe(true);
    expect(await front.stat("svc_continuations_total", 'outcome="went_on"')).toBe(8);
  });
});
