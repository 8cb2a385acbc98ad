import { afterAll, beforeAll } from "vitest";
import { serviceOfFile } from "./scripted-service.ts";
import { type RunningAdmin, startAdmin } from "./start-admin.ts";

/** Runs a service with its admin listener during the tests of the file. `config` is the configuration that it shows. */
export function administeredService(config: Readonly<Record<string, unknown>> = {}) {
  const service = serviceOfFile();
  const admin = {} as RunningAdmin;
  beforeAll(async () => {
    Object.assign(admin, await startAdmin(service.gateway, config));
  });
  afterAll(() => admin.stop());
  return { service, admin };
}
