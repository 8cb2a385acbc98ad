import { runConfigured } from "../deploy/runtime/process/run-main.ts";
import { GONE_KEYS } from "./gone-keys.ts";

/* The program is loaded once its command line and its configuration are good. */

process.exitCode = await runConfigured({
  name: "gateway",
  description: "The public API in front of engine nodes.",
  schema: async () => (await import("./config.ts")).gatewayConfigSchema,
  gone: GONE_KEYS,
  run: async (config) => (await import("./run-gateway.ts")).runGateway(config),
});
// Timers of libraries must not keep a finished process alive.
process.exit();
