import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { BenchResult } from "./report/bench-result.ts";

/** Runs the simulation of routing policies, a program of its own, and hands on its tables as they are. */
export async function routingBench(): Promise<BenchResult> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "routing/routing-simulation.js")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (code !== 0) throw new Error(`the routing simulation ended with ${code}`);
  return { title: "routing: simulated policies", columns: [], rows: [], notes: output.trim().split("\n") };
}
