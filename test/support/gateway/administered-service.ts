import { afterAll, beforeAll } from "vitest";
import { type ScriptedService, startScriptedService } from "./scripted-service.ts";
import { type RunningAdmin, startAdmin } from "./start-admin.ts";

export type AdministeredService = {
  readonly service: ScriptedService;
  readonly admin: RunningAdmin;
};

/** Runs a service with its admin listener during the tests of the file. `config` is the configuration that it shows. */
export function administeredService(config: Readonly<Record<string, unknown>> = {}): AdministeredService {
  const rig: { service?: ScriptedService; admin?: RunningAdmin } = {};
  beforeAll(async () => {
    const service = await startScriptedService();
    rig.service = service;
    rig.admin = await startAdmin(service.gateway, config);
  });
  afterAll(async () => {
    // A failed start leaves no listener, and the test reports the failure.
    await rig.admin?.stop();
    await rig.service?.stop();
  });
  return rig as AdministeredService;
}
