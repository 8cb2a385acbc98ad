import { onTestFinished } from "vitest";
import { EngineError } from "../../../../engine/errors.ts";
import type { Event } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FaultyWire } from "../../engine/faulty-wire.ts";
import type { Script } from "../../engine/scripted-backend.ts";
import type { RunningEngine } from "../../engine/start-engine.ts";
import { textAnswer } from "../../events/events.ts";
import { preferred } from "../../preferred.ts";
import { FrontRig, type FrontRigOptions } from "../front-rig.ts";
import { engineOf } from "../own-services.ts";

export const hello: Script = () => [textAnswer("Hello.")];

/** Makes the script of an engine that is lost after some events. */
export const failsAt = (events: readonly Event[]): Script =>
  async function* () {
    if (events.length > 0) yield events;
    throw new EngineError("ENGINE_DOWN", "gone");
  };

/** Makes the script of an engine that falls silent after some steps. */
export const staysAt = (...steps: readonly (readonly Event[])[]): Script =>
  async function* () {
    yield* steps;
    await new Promise(() => {});
  };

export const engine = (script: Script, slots = 1_000) => engineOf(script, { slots });

export async function wireTo({ address }: { readonly address: string }): Promise<FaultyWire> {
  const wire = await FaultyWire.start(address);
  onTestFinished(() => wire.close());
  return wire;
}

export async function wired<Scripts extends readonly Script[]>(...scripts: Scripts) {
  const wires = await Promise.all(scripts.map(async (script) => wireTo(await engine(script))));
  return wires as { [At in keyof Scripts]: FaultyWire };
}

export async function routed(scripts: readonly Script[], options: FrontRigOptions = {}) {
  const engines = await Promise.all(scripts.map((script) => engine(script)));
  return { engines, ...(await inFrontOf(engines, options)) };
}

/** Starts a router in front of nodes, which prefers the first, for the running test. */
export async function inFrontOf(nodes: readonly { readonly address: string }[], options: FrontRigOptions = {}) {
  const { endpoints, ...policy } = preferred(nodes.map(({ address }) => address));
  const rig = new FrontRig(endpoints, { ...options, cluster: { ...policy, ...options.cluster } });
  onTestFinished(() => rig.close());
  await rig.ready();
  return { rig };
}

export const callsOf = (engines: readonly RunningEngine[]) => engines.map(({ backend }) => backend.requests.length);
