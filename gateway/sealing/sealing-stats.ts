import { Counter, Gauge, type Registry } from "prom-client";
import { OPENINGS, type Sealing } from "./sealing.ts";

/** Registers the sealing keys in force and the outcomes of opening sealed texts as metrics, read at each scrape. */
export function registerSealingStats(registry: Registry, sealing: Pick<Sealing, "keyIds" | "openings">): void {
  new Gauge({
    name: "svc_sealing_keys",
    help: "1 for each sealing key in force, by id and use: the first one seals and opens, the others only open.",
    labelNames: ["key_id", "does"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [at, key_id] of sealing.keyIds.entries()) this.set({ key_id, does: at === 0 ? "seals" : "opens" }, 1);
    },
  });
  new Counter({
    name: "svc_sealed_texts_total",
    help: "Sealed texts that callers sent back, by outcome: opened; unknown_key, which names an unknown key; refused, which is not ours, was changed or was sealed for another purpose.",
    labelNames: ["result"],
    registers: [registry],
    collect() {
      this.reset();
      for (const result of OPENINGS) this.inc({ result }, sealing.openings[result]);
    },
  });
}
