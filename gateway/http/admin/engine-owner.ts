import { type AdminRoute, changes } from "./admin-route.ts";

/** The process that started this gateway together with its engines, as `npm start` does: it alone can kill one. */
export type EngineOwner = {
  /** Returns whether it started the engine at `address`. */
  readonly owns: (address: string) => boolean;
  /** Asks it to kill the engine at `address` without notice. */
  readonly kill: (address: string) => void;
};

/** Returns the owner that has sent the addresses of its engines by the channel of this process; until then it owns none. */
export function engineOwner(): EngineOwner {
  let engines: readonly unknown[] = [];
  process.on("message", (message: { readonly engines?: readonly unknown[] }) => {
    engines = message.engines ?? [];
  });
  // The listener alone would keep the process.
  process.channel?.unref();
  return { owns: (address) => engines.includes(address), kill: (address) => process.send?.({ kill: address }) };
}

/** Makes the path that has the owner kill an engine: its answers go on elsewhere. No other engine can be killed. */
export function killRoute({ owns, kill }: EngineOwner): AdminRoute {
  const help = "kill an engine that npm start has started with this gateway; it starts again";
  return changes("/endpoint/:address/kill", help, ({ params: { address = "" } }) => {
    if (!owns(address)) return { status: 404, body: "no engine that was started with this gateway\n" };
    kill(address);
    return { body: "killed; npm start starts it again\n" };
  });
}
