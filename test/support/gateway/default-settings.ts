import { timeoutsOf, timeoutsSchema } from "../../../gateway/upstream/call/timeouts.ts";
import { outlierSchema } from "../../../gateway/upstream/outlier/outlier-settings.ts";

/* Settings of an empty configuration. */

export const DEFAULT_TIMEOUTS = timeoutsOf(timeoutsSchema.parse(undefined));
export const DEFAULT_OUTLIER_DETECTION = outlierSchema.parse(undefined);
