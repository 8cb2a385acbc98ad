import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { CallerWork } from "../../../engine/caller-work/caller-work.ts";

/** Does the work that callers cause at once and on this thread, for tests of what needs its results. */
export const workHere = new CallerWork({ clock: systemClock, program: undefined });
