import { jsonLimitsSchema } from "../../../gateway/json/json-scan.ts";
import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { continuationSchema } from "../../../gateway/upstream/continuation/continuation-settings.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";
import { retryBudgetSchema, retrySchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* Settings of an empty configuration. */

const retry = retrySchema.parse(undefined);

export const DEFAULT_JSON_LIMITS = jsonLimitsSchema.parse(undefined);
export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
export const DEFAULT_CONTINUATION = continuationSchema.parse(undefined);
export const DEFAULT_BACK_OFF = retry.retryBackOff;
export const DEFAULT_REQUEST_OF_DEATH = retry.requestOfDeath;
