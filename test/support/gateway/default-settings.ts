import { jsonLimitsSchema } from "../../../gateway/json/json-scan.ts";
import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";
import { retryBudgetSchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* What the schemas give for a configuration that says nothing. */

/** The bounds on what a JSON text may cost. */
export const DEFAULT_JSON_LIMITS = jsonLimitsSchema.parse(undefined);
/** The time limits of requests and their calls. */
export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
/** The settings of outlier detection. */
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
/** The settings of the retry budget. */
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
