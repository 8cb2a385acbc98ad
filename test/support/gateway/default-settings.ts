import { jsonLimitsSchema } from "../../../gateway/json/json-scan.ts";
import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { endpointCapsSchema } from "../../../gateway/upstream/load-balancing/endpoint-caps.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";
import { adaptiveLifoSchema } from "../../../gateway/upstream/queue/adaptive-lifo.ts";
import { retryBudgetSchema, retrySchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* What the schemas give for a configuration that says nothing. */

const retry = retrySchema.parse(undefined);

export const DEFAULT_JSON_LIMITS = jsonLimitsSchema.parse(undefined);
export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
export const DEFAULT_ENDPOINT_CAPS = endpointCapsSchema.parse(undefined);
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
export const DEFAULT_ADAPTIVE_LIFO = adaptiveLifoSchema.parse(undefined);
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
export const DEFAULT_BACK_OFF = retry.retryBackOff;
export const DEFAULT_REQUEST_OF_DEATH = retry.requestOfDeath;
