import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { CallerWork } from "../../../engine/caller-work/caller-work.ts";

export const workHere = new CallerWork({ clock: systemClock, program: undefined });
