import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { CallerWork } from "../../../engine/caller-work/caller-work.ts";

/** Runs callers' jobs at once on this thread, for tests that need their results. */
export const workHere = new CallerWork({ clock: systemClock, program: undefined });
