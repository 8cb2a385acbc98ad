import { attack, type Hostility, type Victim } from "../../support/processes/hostile-caller.ts";

/*
 * The hostile caller of the benches, a program of its own, so that what it costs itself is not taken for the service's.
 * Takes whom to attack, and how, as its argument; attacks until it is told to end, and tells its parent what became of
 * it.
 */

/** What the program takes as its argument, in JSON. */
export type Attack = { readonly victim: Victim; readonly hostility: Hostility; readonly seed: number };

const { victim, hostility, seed } = JSON.parse(process.argv[2] ?? "") as Attack;
const over = new AbortController();
process.once("SIGTERM", () => over.abort());
process.on("disconnect", () => process.exit());
process.stdout.write("ready {}\n");
const tally = await attack(victim, hostility, seed, over.signal);
process.send?.(tally, () => process.exit());
