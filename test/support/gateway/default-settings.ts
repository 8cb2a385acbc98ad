import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";
import { retryBudgetSchema } from "../../../gateway/upstream/retry/retry-settings.ts";

/* Settings of an empty configuration. */

export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
export const DEFAULT_RETRY_BUDGET = retryBudgetSchema.parse(undefined);
