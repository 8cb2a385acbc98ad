import { EngineError } from "../../../engine/errors.ts";
import { delta, started, textStart } from "../events/events.ts";
import type { Script } from "./scripted-backend.ts";

export const lostMidway: Script = async function* () {
  yield [started(), textStart(0), delta(0, "half")];
  throw new EngineError("ENGINE_DOWN", "gone");
};
