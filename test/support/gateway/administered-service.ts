import { afterAll, beforeAll } from "vitest";
import { type ScriptedService, startScriptedService } from "./scripted-service.ts";
import { type RunningAdmin, startAdmin } from "./start-admin.ts";

/** A scripted service with its admin listener, for all tests of one file. */
export type AdministeredService = {
  readonly service: ScriptedService;
  readonly admin: RunningAdmin;
};

/** Has a service run with its admin listener while the tests of the file do. `config` is what that shows as configured. */
export function administeredService(config: Readonly<Record<string, unknown>> = {}): AdministeredService {
  const rig: { service?: ScriptedService; admin?: RunningAdmin } = {};
  beforeAll(async () => {
    const service = await startScriptedService();
    rig.service = service;
    rig.admin = await startAdmin(service.gateway, config);
  });
  afterAll(async () => {
    // What did not start has nothing to stop, and the test says why it did not.
    await rig.admin?.stop();
    await rig.service?.stop();
  });
  return rig as AdministeredService;
}
