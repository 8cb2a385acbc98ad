import { jsonLimitsSchema } from "../../../gateway/json/json-scan.ts";
import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { outlierSchema } from "../../../gateway/upstream/endpoint/outlier-detector.ts";
import { retryBudgetSchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* Settings of an empty configuration. */

/** The bounds on what a JSON text may cost. */
export const DEFAULT_JSON_LIMITS = jsonLimitsSchema.parse(undefined);
export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
