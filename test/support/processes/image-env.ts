/** Environment of processes in `deploy/images/Containerfile`. Without jemalloc the loader warns and continues. */
export const IMAGE_ENV = {
  LD_PRELOAD: "libjemalloc.so.2",
  MALLOC_CONF: "background_thread:true,dirty_decay_ms:3000",
};
