import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DIALECTS } from "../../engine/backends/openai-compatible/engines/dialects.ts";
import { asking } from "../../engine/backends/openai-compatible/generation/generation-parts.ts";
import { EngineHttp } from "../../engine/backends/openai-compatible/http/engine-http.ts";
import type { JsonFields } from "../../engine/backends/openai-compatible/http/json-fields.ts";
import { kvSource } from "../../engine/backends/openai-compatible/kv-events/kv-source.ts";
import type { OpenAiCompatibleBackend } from "../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { backendOf } from "../support/dialects/dialect-rig.ts";
import { assistant, call, text, toolResult, user } from "../support/engine/canonical.ts";
import { EngineTap } from "../support/processes/engine-tap.ts";
import { generateRequest, toolOf } from "../support/requests/generate-request.ts";
import { testsBeside } from "./engine-suite.ts";
import { MODEL_SAMPLING, sglangArgs } from "./engines.ts";
import { MODEL, type Rig } from "./rig.ts";

const RUN = toolOf("run_command", { type: "object", properties: { command: { type: "string" } } });

/** Registers tests of what a node sends to SGLang, and of what SGLang makes of it. */
function sentTo(rig: Rig): void {
  describe("what SGLang gets", () => {
    let tap: EngineTap;
    let backend: OpenAiCompatibleBackend;
    beforeAll(async () => {
      tap = await EngineTap.start(rig.engine.baseUrl);
      const profile = loadProfile("hermes-thinking");
      backend = backendOf(tap, "sglang", { models: [MODEL], profile, countTimeoutMs: 60_000, spellings: [] });
      await backend.start(new AbortController().signal);
    }, 120_000);
    afterAll(async () => {
      await backend.close();
      await tap.stop();
    });

    const sent = async (fields: Parameters<typeof generateRequest>[0]) => {
      const request = generateRequest({ model: MODEL, maxOutputTokens: 8, ...fields });
      const steps = backend.generate(request, new AbortController().signal);
      while (!(await steps.next()).done);
      const body = JSON.parse(tap.bodiesOf("/generate").at(-1) ?? "");
      const ask = asking(new EngineHttp(rig.engine.baseUrl, undefined), 60_000, new AbortController().signal);
      return { body, prompt: await DIALECTS.sglang.detokenize(ask, "demo", body.input_ids) };
    };

    test("a request for SGLang is a prompt with the tools, the calls and the results in the form of the model's template", async () => {
      const messages = [user("Run npm test"), assistant(call("run_command", '{"command":"npm test"}'))];
      const { prompt } = await sent({ messages: [...messages, toolResult("3 passed")], tools: [RUN] });
      expect(prompt).toMatch(/<tools>\n.*"name": "run_command".*\n<\/tools>/);
      // Its own addition: without it, its answers go on beside other engines.
      expect(prompt).toContain('"defer_loading": null');
      expect(prompt).toContain(
        '<tool_call>\n{"name": "run_command", "arguments": {"command": "npm test"}}\n</tool_call>',
      );
      expect(prompt).toContain("<tool_response>\n3 passed\n</tool_response>");
      expect(backend.startNotes()).toEqual([]);
    });

    test("a request for SGLang has the sampling parameters of the model's configuration where a request has none", async () => {
      const { body } = await sent({ messages: [user("Count from 1 to 12.")] });
      expect(body.sampling_params).toMatchObject(MODEL_SAMPLING);
      // As SGLang says of its own chat endpoint.
      expect(rig.engine.output()).toContain(`model generation config: ${pythonOf(MODEL_SAMPLING)}`);
      const own = { temperature: 0, topK: 0, stop: [], logitBias: {} };
      const { body: asked } = await sent({ messages: [user("Count."), assistant(text("1"))], sampling: own });
      expect(asked.sampling_params).toMatchObject({ ...MODEL_SAMPLING, temperature: 0, top_k: -1 });
    });

    test("a request for SGLang names its ranks: as many as it has replicas and groups of attention", async () => {
      const publisher = { publisher: "zmq", endpoint: "tcp://*:5557", replay_endpoint: "tcp://*:5657" };
      const [script = "", installed = "", ...options] = sglangArgs(0, "--kv-events-config", JSON.stringify(publisher));
      const described = [script, installed, "--describe", ...options, "--tp-size", "4", "--attn-dp-size", "4"];
      const env = { ...process.env, ...rig.lane.command.env };
      const { stdout } = await promisify(execFile)(rig.lane.command.program, described, { env });
      const info: JsonFields = JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
      expect(info).toMatchObject({ dp_size: 1, attn_dp_size: 4 });
      for (const page of [info, { ...info, kv_events: null }]) {
        const publishers = (await DIALECTS.sglang.kvPublishers?.(async () => page)) ?? [];
        const sources = publishers.map(({ config, rank }) => kvSource(config, "127.0.0.1", rank));
        expect(sources.map((source) => source?.endpoint)).toEqual(
          [5557, 5558, 5559, 5560].map((port) => `tcp://127.0.0.1:${port}`),
        );
        expect(sources.map((source) => source?.replayEndpoint)).toEqual(
          [5657, 5658, 5659, 5660].map((port) => `tcp://127.0.0.1:${port}`),
        );
      }
    }, 300_000);

    test("a request for SGLang separates tenants, and finds what each has cached", async () => {
      const messages = [user("The sea, and the ships that sail on it, and all that they carry. ".repeat(8))];
      const cached = async (tenant: string) => {
        const reading = rig.begin({ messages, tenant, maxOutputTokens: 4 });
        expect((await reading.ended).code).toBe(0);
        const last = reading.events.at(-1)?.kind;
        return last?.$case === "finished" ? last.value.usage?.cachedInputTokens : undefined;
      };
      expect(await cached("one")).toBe(0);
      expect(await cached("other")).toBe(0);
      expect(await cached("one")).toBeGreaterThan(64);
    });
  });
}

/** Returns a record of numbers in the notation of Python. */
function pythonOf(numbers: Readonly<Record<string, number>>): string {
  return `{${Object.entries(numbers)
    .map(([name, value]) => `'${name}': ${value}`)
    .join(", ")}}`;
}

await testsBeside("sglang", sentTo);
