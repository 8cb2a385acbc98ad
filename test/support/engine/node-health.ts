import { Client, credentials } from "@grpc/grpc-js";
import {
  type HealthCheckResponse,
  HealthService,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../../proto/gen/grpc/health/v1/health.ts";

export const HEALTH_NAMES = ["", "svc.inference.v1.InferenceService", "svc.model/svc-qwen"];

export function watchHealth(address: string, service: string) {
  const client = new Client(address, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = HealthService.watch;
  const call = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service });
  let now: ServingStatus | undefined;
  let look = () => {};
  call.on("data", ({ status }: HealthCheckResponse) => {
    now = status;
    look();
  });
  call.on("error", () => {});
  return {
    is: (wanted: keyof typeof ServingStatus): Promise<void> =>
      new Promise((resolve) => {
        look = () => {
          if (now === ServingStatus[wanted]) resolve();
        };
        look();
      }),
    stop: () => {
      call.cancel();
      client.close();
    },
  };
}
