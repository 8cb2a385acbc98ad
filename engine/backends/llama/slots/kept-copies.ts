/**
 * The number of copies of a cache that cannot be cut: those of the last turns, so that one can be repeated or edited. A
 * copy takes tens of megabytes for a model with thirty recurrent layers.
 */
export const KEPT_COPIES = 3;
