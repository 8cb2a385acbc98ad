import { becomes } from "../becomes.ts";
import { type BodyReader, readBody } from "../http/read-until.ts";
import { preferred } from "../preferred.ts";
import { GatewayProcess, type LoggedRequest } from "./gateway-process.ts";

/** Models of both clusters; the first has all endpoints, the second only the first endpoint. */
export const FRONT_MODELS = ["svc-qwen", "svc-glm53"] as const;

const TIMEOUTS = {
  perTryIdleTimeoutMs: 4_000,
  // A failure before the answer begins has its own status, however late the fault comes.
  keepAliveIntervalMs: 60_000,
};

/** The first endpoint is preferred. The gateway neither ejects endpoints nor holds or sheds requests. */
export function startFront(addresses: readonly string[], circuitBreakers: object = {}): Promise<GatewayProcess> {
  return GatewayProcess.start({
    clusters: FRONT_MODELS.map((model, index) => ({
      model,
      ...preferred(index === 0 ? addresses : addresses.slice(0, 1)),
      outlierDetection: { consecutiveGatewayFailure: 0 },
      healthChecks: { intervalMs: 60_000 },
      circuitBreakers: { noEndpointHoldMs: 0, ...circuitBreakers },
    })),
    timeouts: TIMEOUTS,
  });
}

export type Seen = {
  readonly status: number;
  readonly text: string;
  readonly cut: boolean;
  readonly log: LoggedRequest;
};

/** Reads the whole answer, or its part until the connection is closed. `body` is given if reading has begun. */
export async function outcomeOf(gateway: GatewayProcess, answer: Response, body?: BodyReader): Promise<Seen> {
  const { text, cut } = await (body ?? readBody(answer)).toEndOrCut();
  const id = answer.headers.get("x-request-id") ?? "";
  await becomes(async () => gateway.logged(id) !== undefined, "the request is logged");
  const log = gateway.logged(id);
  if (!log) throw new Error("the request was not logged");
  return { status: answer.status, text, cut, log };
}
