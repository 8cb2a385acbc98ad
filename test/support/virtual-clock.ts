import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { VirtualEngineClock } from "./engine/virtual-engine-clock.ts";

/** Time that stands still until the test moves it. The wall clock stays the real one: deadlines of calls need it. */
export class VirtualClock extends VirtualEngineClock implements Clock {
  wallMs(): number {
    return Date.now();
  }
}
