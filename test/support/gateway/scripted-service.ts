import { afterAll, beforeAll, beforeEach } from "vitest";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Script, ScriptedOptions } from "../engine/scripted-backend.ts";
import { startEngine } from "../engine/start-engine.ts";
import { textAnswer } from "../events/events.ts";
import { MINIMAL, type PostPath } from "../requests/minimal-bodies.ts";
import { startGateway } from "./start-gateway.ts";

export type ScriptedServiceOptions = {
  readonly engine?: Partial<ScriptedOptions>;
  readonly gateway?: Readonly<Record<string, unknown>>;
};

export type ScriptedService = Awaited<ReturnType<typeof startScriptedService>>;

export const ERROR_FRAMES = { brokenStream: "error" };

export const HELLO: Script = () => [textAnswer("Hello.")];

/** Starts the real gateway in front of one scripted engine node. The caller stops it. */
export async function startScriptedService(options: ScriptedServiceOptions = {}) {
  let script: Script = HELLO;
  const engine = await startEngine((request, signal) => script(request, signal), options.engine);
  const gateway = await startGateway([engine.address], options.gateway);
  const post = (path: PostPath, fields: object = {}, headers: Record<string, string> = {}) =>
    gateway.post(path, { ...MINIMAL[path], ...fields }, headers);
  return {
    engine,
    gateway,
    post,
    play(next: Script) {
      script = next;
    },
    lastRequest(): GenerateRequest {
      const request = engine.backend.requests.at(-1);
      if (!request) throw new Error("no request has reached the engine");
      return request;
    },
    /** Sends as `post`, by default not streamed. Resolves to the parsed JSON; throws unless the status is 200. */
    async reply(path: PostPath, fields: object = {}): Promise<unknown> {
      return JSON.parse(await textOf200(await post(path, fields)));
    },
    async stream(path: PostPath, fields: object = {}) {
      return textOf200(await post(path, { ...fields, stream: true }));
    },
    createKey: gateway.createKey,
    async stop() {
      await gateway.stop();
      await engine.stop();
    },
  };
}

/** Starts a service for the tests of one file, stops it after them, and sets `script` before each. */
export function serviceOfFile(options: ScriptedServiceOptions = {}, script = HELLO): ScriptedService {
  const service = {} as ScriptedService;
  beforeAll(async () => {
    Object.assign(service, await startScriptedService(options));
  });
  beforeEach(() => service.play(script));
  afterAll(() => service.stop());
  return service;
}

async function textOf200(response: Response): Promise<string> {
  const text = await response.text();
  if (response.status !== 200) throw new Error(`answered with ${response.status}: ${text}`);
  return text;
}
