import { Gauge, type Registry } from "prom-client";
import type { ContinuationRoom } from "../../../upstream/continuation/continuation-room.ts";

/** Registers the memory of resumable answers as gauges, read at the moment of the scrape. */
export function registerContinuationStats(
  registry: Registry,
  room: Pick<ContinuationRoom, "answers" | "bytes" | "maxBytes">,
): void {
  new Gauge({
    name: "svc_answers_kept",
    help: "Answers that are kept now so that another engine could go on with them.",
    registers: [registry],
    collect() {
      this.set(room.answers);
    },
  });
  new Gauge({
    name: "svc_answers_kept_bytes",
    help: "Memory of the answers that are kept now so that another engine could go on with them, their requests included, in bytes.",
    registers: [registry],
    collect() {
      this.set(room.bytes);
    },
  });
  new Gauge({
    name: "svc_answers_kept_limit_bytes",
    help: "The most memory that kept answers may take up, continuation.maxBytes, in bytes.",
    registers: [registry],
    collect() {
      this.set(room.maxBytes);
    },
  });
}
