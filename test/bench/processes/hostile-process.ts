import { attack, type Hostility, type Victim } from "../../support/processes/hostile-caller.ts";

/*
 * The hostile caller of the benches, a separate program, so that its own cost is not counted as the service's. Its
 * argument is the target and the kind of attack; it attacks until SIGTERM and sends its tally to the parent.
 */

export type Attack = { readonly victim: Victim; readonly hostility: Hostility; readonly seed: number };

const { victim, hostility, seed } = JSON.parse(process.argv[2] ?? "") as Attack;
const over = new AbortController();
process.once("SIGTERM", () => over.abort());
process.on("disconnect", () => process.exit());
process.stdout.write("ready {}\n");
const tally = await attack(victim, hostility, seed, over.signal);
process.send?.(tally, () => process.exit());
