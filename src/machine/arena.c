/*
 * The sparse mappings behind a simulated machine (null and model): direct map, descriptors, tags.
 *
 * Nothing is reserved: the kernel is asked for address space only, so that a machine of terabytes fits into a small computer.
 * Invariant: either all mappings of a machine exist and m->max_pfn says how long they are, or none does and max_pfn is 0.
 * No locks: a machine is created and destroyed by one thread.
 */
#include "machine/arena.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define FRAME_DESC_BYTES 64ULL
#define ARENA_ALIGN PMD_SIZE
/* 64 TiB of modelled memory: the direct map, descriptors and tags still fit into half of a 47-bit address space. */
#define ARENA_MAX_PFN (1ULL << 34)

/* Room for len bytes, aligned to ARENA_ALIGN. Errors: NULL with errno. */
static void *map_sparse(uint64_t len)
{
	uint64_t room = ALIGN_UP(len, ARENA_ALIGN) + ARENA_ALIGN;
	char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start, *end;

	if (p == MAP_FAILED)
		return NULL;
	start = (char *)ALIGN_UP((uintptr_t)p, ARENA_ALIGN);
	end = start + ALIGN_UP(len, PAGE_SIZE);
	if (start > p)
		munmap(p, (size_t)(start - p));
	/* What is cut off behind the end stays unmapped for now: an index past the end faults instead of corrupting. */
	if (p + room > end)
		munmap(end, (size_t)(p + room - end));
	/* Advice only: where the kernel does not know one, nothing is lost but speed or the size of a core file. */
	(void)madvise(start, len, MADV_DONTDUMP);
	return start;
}

static void unmap_sparse(void *p, uint64_t len)
{
	if (p)
		munmap(p, ALIGN_UP(len, PAGE_SIZE));
}

void machine_arena_destroy(struct machine *m)
{
	unmap_sparse(m->direct, m->max_pfn << PAGE_SHIFT);
	unmap_sparse(m->memmap, m->max_pfn * FRAME_DESC_BYTES);
	unmap_sparse(m->tags, m->max_pfn * sizeof(*m->tags));
	m->direct = NULL;
	m->memmap = NULL;
	m->tags = NULL;
	m->max_pfn = 0;
}

int machine_arena_create(struct machine *m, uint64_t max_pfn, bool tags, char *err, size_t errlen)
{
	m->direct = NULL;
	m->memmap = NULL;
	m->tags = NULL;
	m->max_pfn = 0;
	if (!max_pfn || max_pfn > ARENA_MAX_PFN) {
		snprintf(err, errlen, "a machine has 1 to %llu page frames, not %llu", ARENA_MAX_PFN,
			 (unsigned long long)max_pfn);
		return -EINVAL;
	}
	m->max_pfn = max_pfn;
	m->direct = map_sparse(max_pfn << PAGE_SHIFT);
	m->memmap = m->direct ? map_sparse(max_pfn * FRAME_DESC_BYTES) : NULL;
	m->tags = m->memmap && tags ? map_sparse(max_pfn * sizeof(*m->tags)) : NULL;
	if (!m->memmap || (tags && !m->tags)) {
		const char *why = strerror(errno);

		machine_arena_destroy(m);
		snprintf(err, errlen,
			 "the kernel refuses %llu MiB of sparse address space for the machine's memory (%s): "
			 "vm.overcommit_memory=2 or a limit on address space (ulimit -v) is in the way",
			 (unsigned long long)(max_pfn >> (20 - PAGE_SHIFT)), why);
		return -ENOMEM;
	}
	/*
	 * Kernel frames are few and scattered: a huge page for each would be memory for nothing. Descriptors are made section
	 * by section, and a section's are exactly one huge page.
	 */
	(void)madvise(m->direct, max_pfn << PAGE_SHIFT, MADV_NOHUGEPAGE);
	(void)madvise(m->memmap, max_pfn * FRAME_DESC_BYTES, MADV_HUGEPAGE);
	return 0;
}
