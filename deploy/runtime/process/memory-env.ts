/**
 * What a service's process is started with in its environment, beside what is there already. With it, glibc maps every
 * piece of memory from 256 KiB on for itself and gives it back at once. Without it, what the largest body was held in
 * raises that bound to 32 MiB for good, and each thread that translated one keeps up to twice as much. It has no effect
 * on systems with another C library, and has to be there when a process starts.
 */
export const MEMORY_ENV = { MALLOC_MMAP_THRESHOLD_: "262144" } as const;
