/*
 * The scripts: one an area of the engine, small enough that each of their points can be failed in turn, and large enough that a
 * failure comes in the middle: ranges over several tables, areas that split, pages that are shared.
 */
#include "base/compiler.h"
#include "base/types.h"
#include "lab/inject_check.h"
#include "mm/hugetlb.h"
#include "mm/uapi.h"

#define RW (UAPI_PROT_READ | UAPI_PROT_WRITE)
#define RO UAPI_PROT_READ
#define A 0x10000000ULL      /* 2 MiB aligned */
#define B (A + (1ULL << 39)) /* another upper table */
#define C (A + (1ULL << 30))
#define P(n) ((n)*PAGE_SIZE)
#define M2 (2ULL << 20)
#define G (1ULL << 30)
#define STACK_TOP 0x7ffffffde000ULL
#define HEAP 0x60000000ULL
#define MAYMOVE UAPI_MREMAP_MAYMOVE
#define POOL_2M (UAPI_MAP_HUGETLB | 21U << UAPI_MAP_HUGE_SHIFT)
#define POOL_1G (UAPI_MAP_HUGETLB | 30U << UAPI_MAP_HUGE_SHIFT)
#define FIXED (UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED)

static const struct inject_step anon_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = P(12), .b = RW },
	{ .op = OP_MMAP, .a = B, .n = P(4), .b = RW },
	{ .op = OP_LOAD, .a = A, .n = P(4) },
	{ .op = OP_STORE, .a = A, .n = P(12) },
	{ .op = OP_STORE, .a = B, .n = P(2) },
	{ .op = OP_MADVISE, .a = A + P(2), .n = P(3), .b = UAPI_MADV_DONTNEED },
	{ .op = OP_MADVISE, .a = A + P(6), .n = P(2), .b = UAPI_MADV_FREE },
	{ .op = OP_STORE, .a = A + P(2), .n = P(2) },
	{ .op = OP_MUNMAP, .a = A + P(4), .n = P(2) },
	{ .op = OP_MMAP, .a = A + P(8), .n = P(2), .b = RO },
	{ .op = OP_MUNMAP, .a = A + P(3), .n = P(6) },
	{ .op = OP_STORE, .a = A + P(10), .n = P(2) },
	{ .op = OP_END },
};

static const struct inject_step fork_steps[] = {
	{ .op = OP_EXEC, .a = STACK_TOP, .n = P(4), .b = HEAP },
	{ .op = OP_MMAP, .a = A, .n = P(6), .b = RW },
	{ .op = OP_MMAP, .a = B, .n = P(6), .b = RW },
	{ .op = OP_MMAP_SHM, .a = C, .n = P(4), .b = RW, .flags = UAPI_MAP_SHARED },
	{ .op = OP_MMAP_FILE, .a = C + M2, .n = P(4), .b = RW },
	{ .op = OP_MADVISE, .a = B + P(4), .n = P(2), .b = UAPI_MADV_WIPEONFORK },
	{ .op = OP_STORE, .a = A, .n = P(6) },
	{ .op = OP_STORE, .a = B, .n = P(6) },
	{ .op = OP_STORE, .a = C, .n = P(2) },
	{ .op = OP_STORE, .a = C + M2, .n = P(2) },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = A, .n = P(2) },
	{ .op = OP_SWITCH, .a = 1 },
	{ .op = OP_STORE, .a = A + P(1), .n = P(2) },
	{ .op = OP_LOAD, .a = B, .n = P(6) },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = B, .n = P(2) },
	{ .op = OP_SWITCH, .a = 0 },
	{ .op = OP_EXIT, .a = 1 },
	{ .op = OP_STORE, .a = A, .n = P(6) },
	{ .op = OP_EXIT, .a = 2 },
	{ .op = OP_STORE, .a = B, .n = P(6) },
	{ .op = OP_END },
};

static const struct inject_step shared_tables_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = P(16), .b = RW },
	{ .op = OP_MMAP, .a = B, .n = M2 + P(8), .b = RW },
	{ .op = OP_MMAP_FILE, .a = C, .n = P(8), .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(16) },
	{ .op = OP_STORE, .a = B, .n = P(8) },
	{ .op = OP_STORE, .a = B + M2, .n = P(8) },
	{ .op = OP_STORE, .a = C, .n = P(4) },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = A, .n = P(2) },
	{ .op = OP_SWITCH, .a = 1 },
	{ .op = OP_FORK },
	{ .op = OP_LOAD, .a = A, .n = P(16) },
	{ .op = OP_STORE, .a = C + P(2), .n = P(4) },
	{ .op = OP_MPROTECT, .a = B + P(2), .n = P(2), .b = RO },
	{ .op = OP_SWITCH, .a = 2 },
	{ .op = OP_MUNMAP, .a = A + P(4), .n = P(4) },
	{ .op = OP_MADVISE, .a = B, .n = P(4), .b = UAPI_MADV_DONTNEED },
	{ .op = OP_MREMAP, .a = B + M2, .n = P(8), .b = P(8), .flags = FIXED, .to = C + M2 },
	{ .op = OP_MLOCK, .a = C, .n = P(4) },
	{ .op = OP_PIN, .a = A, .n = P(2), .b = 1 },
	{ .op = OP_SWITCH, .a = 0 },
	{ .op = OP_EXIT, .a = 1 },
	{ .op = OP_STORE, .a = B, .n = P(8) },
	{ .op = OP_STORE, .a = B + M2, .n = P(8) },
	{ .op = OP_UNPIN },
	{ .op = OP_END },
};

static const struct inject_step huge_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = 3 * M2 + P(4), .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(1) },
	{ .op = OP_LOAD, .a = A + M2, .n = P(1) },
	{ .op = OP_STORE, .a = A + M2 + P(7), .n = P(1) },
	{ .op = OP_LOAD, .a = A + 2 * M2, .n = P(1) },
	{ .op = OP_STORE, .a = A + 3 * M2, .n = P(2) },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = A + P(3), .n = P(1) },
	{ .op = OP_SWITCH, .a = 1 },
	{ .op = OP_STORE, .a = A + M2 + P(3), .n = P(2) },
	{ .op = OP_EXIT, .a = 0 },
	{ .op = OP_MPROTECT, .a = A + P(8), .n = P(8), .b = RO },
	{ .op = OP_MUNMAP, .a = A + M2 + P(16), .n = P(4) },
	{ .op = OP_MADVISE, .a = A + P(100), .n = P(50), .b = UAPI_MADV_DONTNEED },
	{ .op = OP_STORE, .a = A + P(100), .n = P(2) },
	{ .op = OP_END },
};

static const struct inject_step huge_move_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = 2 * M2, .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(2) },
	{ .op = OP_STORE, .a = A + M2, .n = P(1) },
	{ .op = OP_MREMAP, .a = A, .n = 2 * M2, .b = 2 * M2, .flags = FIXED, .to = B },
	{ .op = OP_MREMAP, .a = B, .n = 2 * M2, .b = 2 * M2, .flags = FIXED, .to = C + P(3) },
	{ .op = OP_STORE, .a = C + P(3), .n = P(4) },
	{ .op = OP_MREMAP, .a = C + P(3), .n = M2, .b = M2, .flags = FIXED, .to = A },
	{ .op = OP_END },
};

static const struct inject_step pin_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = M2 + P(8), .b = RW },
	{ .op = OP_MMAP, .a = B, .n = P(8), .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(1) },
	{ .op = OP_STORE, .a = B, .n = P(3) },
	{ .op = OP_PIN, .a = A + P(2), .n = P(2), .b = 1 },
	{ .op = OP_PIN, .a = A + M2, .n = P(4), .b = 1 },
	{ .op = OP_PIN, .a = B, .n = P(5), .b = 0 },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = A, .n = P(2) },
	{ .op = OP_STORE, .a = B, .n = P(2) },
	{ .op = OP_UNPIN },
	{ .op = OP_SWITCH, .a = 1 },
	{ .op = OP_PIN, .a = B, .n = P(8), .b = 0 },
	{ .op = OP_STORE, .a = B, .n = P(8) },
	{ .op = OP_END },
};

static const struct inject_step mremap_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = P(8), .b = RW },
	{ .op = OP_MMAP, .a = A + P(8), .n = P(2), .b = RO },
	{ .op = OP_MMAP, .a = C, .n = M2 + P(4), .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(8) },
	{ .op = OP_STORE, .a = C, .n = P(3) },
	{ .op = OP_STORE, .a = C + M2, .n = P(4) },
	{ .op = OP_MREMAP, .a = C, .n = M2 + P(4), .b = M2 + P(6) },
	{ .op = OP_MREMAP, .a = A + P(2), .n = P(4), .b = P(4), .flags = FIXED, .to = B },
	{ .op = OP_MREMAP, .a = A, .n = P(2), .b = P(5), .flags = FIXED, .to = B + P(4) },
	{ .op = OP_MREMAP, .a = C, .n = M2 + P(6), .b = M2 + P(6), .flags = FIXED, .to = B + M2 - P(2) },
	{ .op = OP_MREMAP, .a = B + M2 - P(2), .n = M2 + P(6), .b = P(4) },
	{ .op = OP_MREMAP, .a = B, .n = P(4), .b = P(4), .flags = MAYMOVE | UAPI_MREMAP_DONTUNMAP, .to = 0 },
	{ .op = OP_STORE, .a = B, .n = P(4) },
	{ .op = OP_MREMAP, .a = A + P(6), .n = P(2), .b = P(64), .flags = MAYMOVE },
	{ .op = OP_END },
};

static const struct inject_step protect_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = P(16), .b = RW },
	{ .op = OP_STORE, .a = A, .n = P(16) },
	{ .op = OP_MPROTECT, .a = A + P(4), .n = P(4), .b = RO },
	{ .op = OP_MPROTECT, .a = A + P(2), .n = P(4), .b = 0 },
	{ .op = OP_MPROTECT, .a = A, .n = P(16), .b = RW },
	{ .op = OP_MPROTECT, .a = A + P(12), .n = P(4), .b = RO },
	{ .op = OP_MADVISE, .a = A + P(2), .n = P(2), .b = UAPI_MADV_DONTFORK },
	{ .op = OP_MADVISE, .a = A + P(1), .n = P(6), .b = UAPI_MADV_NOHUGEPAGE },
	{ .op = OP_MADVISE, .a = A, .n = P(16), .b = UAPI_MADV_DOFORK },
	{ .op = OP_MMAP, .a = C, .n = P(8), .b = RO },
	{ .op = OP_LOAD, .a = C, .n = P(4) },
	{ .op = OP_MLOCK, .a = C, .n = P(8) },
	{ .op = OP_MPROTECT, .a = C + P(2), .n = P(4), .b = RW },
	{ .op = OP_STORE, .a = C + P(2), .n = P(4) },
	{ .op = OP_STORE, .a = A, .n = P(12) },
	{ .op = OP_END },
};

static const struct inject_step lock_steps[] = {
	{ .op = OP_MMAP, .a = A, .n = P(8), .b = RW },
	{ .op = OP_MLOCK, .a = A + P(2), .n = P(4) },
	{ .op = OP_MUNLOCK, .a = A + P(3), .n = P(2) },
	{ .op = OP_MLOCK, .a = A + P(4), .n = P(3), .b = 1 },
	{ .op = OP_STORE, .a = A, .n = P(8) },
	{ .op = OP_MMAP, .a = B, .n = P(4), .b = RW, .flags = UAPI_MAP_POPULATE },
	{ .op = OP_STORE, .a = B, .n = P(4) },
	{ .op = OP_MMAP, .a = C, .n = P(4), .b = RW, .flags = UAPI_MAP_LOCKED },
	{ .op = OP_MADVISE, .a = A, .n = P(8), .b = UAPI_MADV_POPULATE_WRITE },
	{ .op = OP_MMAP_FILE, .a = C + M2, .n = P(8), .b = RO },
	{ .op = OP_MADVISE, .a = C + M2, .n = P(8), .b = UAPI_MADV_POPULATE_READ },
	{ .op = OP_MLOCKALL, .b = UAPI_MCL_CURRENT | UAPI_MCL_FUTURE },
	{ .op = OP_MMAP, .a = C + 2 * M2, .n = P(4), .b = RW },
	{ .op = OP_MREMAP, .a = C + 2 * M2, .n = P(4), .b = P(8) },
	{ .op = OP_MREMAP, .a = C, .n = P(4), .b = P(4), .flags = FIXED, .to = A + P(64) },
	{ .op = OP_MUNLOCKALL },
	{ .op = OP_END },
};

static const struct inject_step file_steps[] = {
	{ .op = OP_READ, .a = 0, .n = P(2) + 100 },
	{ .op = OP_WRITE, .a = P(9) + 5, .n = P(2) },
	{ .op = OP_MMAP_FILE, .a = A, .n = P(64), .b = RW },
	{ .op = OP_LOAD, .a = A, .n = P(4) },
	{ .op = OP_STORE, .a = A + P(2), .n = P(3) },
	{ .op = OP_STORE, .a = A + P(50), .n = P(2) },
	{ .op = OP_MMAP_FILE, .a = B, .n = P(64), .b = RW, .flags = UAPI_MAP_SHARED },
	{ .op = OP_STORE, .a = B + P(2), .n = P(3) },
	{ .op = OP_MLOCK, .a = B, .n = P(4) },
	{ .op = OP_MMAP_SHM, .a = C, .n = P(8), .b = RW, .flags = UAPI_MAP_SHARED },
	{ .op = OP_STORE, .a = C, .n = P(3) },
	{ .op = OP_LOAD, .a = C + P(3), .n = P(3) },
	{ .op = OP_MMAP_SHM, .a = C + M2, .n = P(8), .b = RW },
	{ .op = OP_STORE, .a = C + M2 + P(1), .n = P(2) },
	{ .op = OP_PIN, .a = A + P(8), .n = P(4), .b = 0 },
	{ .op = OP_PIN, .a = C, .n = P(4), .b = 1 },
	{ .op = OP_MADVISE, .a = A, .n = P(8), .b = UAPI_MADV_WILLNEED },
	{ .op = OP_MREMAP, .a = A, .n = P(64), .b = P(64), .flags = FIXED, .to = C + 2 * M2 },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = C + 2 * M2 + P(2), .n = P(2) },
	{ .op = OP_MUNMAP, .a = B + P(8), .n = P(8) },
	{ .op = OP_END },
};

static const struct inject_step exec_steps[] = {
	{ .op = OP_EXEC, .a = STACK_TOP, .n = P(4), .b = HEAP },
	{ .op = OP_STORE, .a = STACK_TOP - P(2), .n = P(2) },
	{ .op = OP_STORE, .a = STACK_TOP - P(8), .n = P(2) }, /* grows */
	{ .op = OP_BRK, .a = HEAP + P(4) },
	{ .op = OP_STORE, .a = HEAP, .n = P(4) },
	{ .op = OP_BRK, .a = HEAP + P(8) },
	{ .op = OP_MPROTECT, .a = HEAP + P(2), .n = P(2), .b = RO },
	{ .op = OP_STORE, .a = HEAP + P(4), .n = P(4) },
	{ .op = OP_BRK, .a = HEAP + P(6) },
	{ .op = OP_BRK, .a = HEAP + P(1) },
	{ .op = OP_MLOCKALL, .b = UAPI_MCL_FUTURE },
	{ .op = OP_BRK, .a = HEAP + P(5) },
	{ .op = OP_STORE, .a = HEAP + P(3), .n = P(2) },
	{ .op = OP_END },
};

/* The pool is large enough for every copy: an owner who finds none takes the page from those who share it, with what they stored. */
static const struct inject_step pool_steps[] = {
	{ .op = OP_POOL, .n = 9, .b = HUGETLB_2M },
	{ .op = OP_MMAP, .a = A, .n = 4 * M2, .b = RW, .flags = POOL_2M },
	{ .op = OP_STORE, .a = A, .n = P(1) },
	{ .op = OP_STORE, .a = A + M2 - P(1), .n = P(2) },
	{ .op = OP_LOAD, .a = A + 2 * M2, .n = P(1) },
	{ .op = OP_FORK },
	{ .op = OP_STORE, .a = A + P(9), .n = P(1) }, /* copied whole */
	{ .op = OP_SWITCH, .a = 1 },
	{ .op = OP_STORE, .a = A + M2, .n = P(2) },
	{ .op = OP_STORE, .a = A + 3 * M2, .n = P(1) }, /* that it was not promised */
	{ .op = OP_MPROTECT, .a = A, .n = M2, .b = RO },
	{ .op = OP_MADVISE, .a = A + 3 * M2, .n = M2, .b = UAPI_MADV_DONTNEED },
	{ .op = OP_MREMAP, .a = A + M2, .n = M2, .b = M2, .flags = FIXED, .to = B },
	{ .op = OP_STORE, .a = B, .n = P(1) },
	{ .op = OP_SWITCH, .a = 0 },
	{ .op = OP_MUNMAP, .a = A + M2, .n = M2 },
	{ .op = OP_MMAP, .a = C, .n = 6 * M2, .b = RW, .flags = POOL_2M }, /* more than are left: surplus */
	{ .op = OP_STORE, .a = C + 5 * M2, .n = P(1) },
	{ .op = OP_EXIT, .a = 1 },
	{ .op = OP_STORE, .a = A + 2 * M2, .n = P(2) },
	{ .op = OP_END },
};

/* Nothing is stored: clearing one of them has as many points as it has small pages. */
static const struct inject_step gigantic_steps[] = {
	{ .op = OP_POOL, .n = 1, .b = HUGETLB_1G },
	{ .op = OP_MMAP, .a = G, .n = G, .b = RW, .flags = POOL_1G },
	{ .op = OP_POOL, .n = 2, .b = HUGETLB_1G },
	{ .op = OP_FORK },
	{ .op = OP_MPROTECT, .a = G, .n = G, .b = RO },
	{ .op = OP_MREMAP, .a = G, .n = G, .b = G, .flags = FIXED, .to = 4 * G },
	{ .op = OP_MMAP, .a = 2 * G, .n = G, .b = RW, .flags = POOL_1G },
	{ .op = OP_EXIT, .a = 1 },
	{ .op = OP_MUNMAP, .a = 4 * G, .n = G },
	{ .op = OP_POOL, .n = 1, .b = HUGETLB_1G },
	{ .op = OP_END },
};

const struct inject_script inject_scripts[] = {
	{ .name = "anon", .help = "anonymous pages, unmapping parts, MADV_DONTNEED and MADV_FREE", .steps = anon_steps },
	{ .name = "fork", .help = "fork of anonymous, file and shared memory, copies on write on either side", .steps = fork_steps },
	{ .name = "fork-tables", .help = "fork that shares page tables, and all that has to make them its own again",
	  .steps = shared_tables_steps, .shared_tables = true },
	{ .name = "huge", .help = "huge pages: first touch, zero page, copies of 2 MiB, splits", .steps = huge_steps, .huge = true,
	  .huge_cow_copy = true },
	{ .name = "huge-split", .help = "the same, where writes to shared huge pages split them", .steps = huge_steps, .huge = true },
	{ .name = "huge-move", .help = "mremap of huge pages, to where they fit and where not", .steps = huge_move_steps, .huge = true },
	{ .name = "hugetlb", .help = "pools of huge pages: growing, promises, copies of 2 MiB, surplus", .steps = pool_steps, .overcommit_2m = 8 },
	{ .name = "hugetlb-1g", .help = "a pool of pages of 1 GiB: growing, promises, moving what is not touched yet", .steps = gigantic_steps,
	  .node_bytes = 4ULL << 30 },
	{ .name = "pin", .help = "long-term pins, and fork of what is pinned", .steps = pin_steps, .huge = true },
	{ .name = "pin-copy", .help = "the same, where pinned huge pages are copied whole", .steps = pin_steps, .huge = true,
	  .huge_cow_copy = true },
	{ .name = "mremap", .help = "growing, moving, shrinking, over several tables", .steps = mremap_steps },
	{ .name = "protect", .help = "mprotect and madvise that split and merge areas", .steps = protect_steps },
	{ .name = "lock", .help = "mlock, mlockall, populate", .steps = lock_steps },
	{ .name = "file", .help = "files: read, write, mappings private and shared, shared memory", .steps = file_steps },
	{ .name = "exec", .help = "a new stack, its growth, the heap", .steps = exec_steps },
};
const size_t inject_nr_scripts = ARRAY_SIZE(inject_scripts);
