import { jsonLimitsSchema } from "../../../gateway/json/json-scan.ts";
import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { continuationSchema } from "../../../gateway/upstream/continuation/continuation-settings.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";
import { retryBudgetSchema, retrySchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* What the schemas give for a configuration that says nothing. */

const retry = retrySchema.parse(undefined);

/** The bounds on what a JSON text may cost. */
export const DEFAULT_JSON_LIMITS = jsonLimitsSchema.parse(undefined);
/** The time limits of requests and their calls. */
export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
/** The settings of outlier detection. */
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
/** The settings of the retry budget. */
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
/** The settings on how answers outlive their engines. */
export const DEFAULT_CONTINUATION = continuationSchema.parse(undefined);
/** The settings of the wait before a retry. */
export const DEFAULT_BACK_OFF = retry.retryBackOff;
/** The settings of how requests are found that kill engines. */
export const DEFAULT_REQUEST_OF_DEATH = retry.requestOfDeath;
