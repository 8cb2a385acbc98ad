import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Backend } from "../backend.ts";
import { EngineError } from "../errors.ts";

/**
 * Asks the backend for one token, for no more than `timeoutMs`. What comes of it shows in the backend's steps only:
 * neither the answer nor a failure means anything here.
 */
export function probeBackend(
  backend: Backend,
  models: readonly string[],
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal,
): void {
  const give = new AbortController();
  const up = () => give.abort(new EngineError("CANCELLED", "The probe has ended."));
  const cancel = clock.after(timeoutMs, up);
  signal.addEventListener("abort", up);
  const request: GenerateRequest = {
    ...GenerateRequest.create(),
    requestId: "probe",
    model: models[0] ?? "",
    messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "." } } }] }],
    maxOutputTokens: 1,
  };
  const run = async () => {
    for await (const _ of backend.generate(request, give.signal)) if (give.signal.aborted) break;
  };
  run()
    .catch(() => {})
    .finally(() => {
      cancel();
      signal.removeEventListener("abort", up);
    });
}
