import { MemoryLimitStore } from "../../../../gateway/limits/memory-limit-store.ts";
import { limitStoreConformance } from "../../../support/gateway/limit-store-conformance.ts";

limitStoreConformance((clock) => new MemoryLimitStore(clock));
