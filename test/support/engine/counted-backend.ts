import type { Backend } from "../../../engine/backend.ts";
import { type Script, ScriptedBackend } from "./scripted-backend.ts";

/**
 * Creates a scripted engine that counts its steps: one is in flight while its caller waits for the script's next
 * events.
 */
export function countedBackend(script: Script): Backend {
  const backend = new ScriptedBackend({ nodeId: "n1", models: ["svc-qwen"], slots: 8, script });
  let made = 0;
  let inFlight = 0;
  return {
    start: () => backend.start(),
    describe: () => backend.describe(),
    load: () => ({ ...backend.load(), steps: { made, inFlight } }),
    async *generate(request, signal) {
      const events = backend.generate(request, signal);
      try {
        for (;;) {
          inFlight += 1;
          const { done, value } = await events.next().finally(() => {
            inFlight -= 1;
          });
          if (done) return;
          made += 1;
          yield value;
        }
      } finally {
        await events.return();
      }
    },
    countTokens: (request) => backend.countTokens(request),
    close: () => backend.close(),
  };
}
