/**
 * The copies that are kept of a cache which cannot be cut: of the last turns, so that one can be asked again, or otherwise.
 * One takes tens of megabytes where a model has thirty layers that remember what they have read in one state.
 */
export const KEPT_COPIES = 3;
