/*
 * How much memory the processes of a run may have. Resident memory is summed up after every step and between the pieces of long accesses. Shared
 * memory that a process no longer has resident may still be there: what was dropped is summed up too, up to the size of the shared objects that
 * anybody still maps.
 */
#include "script/kernel_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/types.h"

#define MADV_POPULATE_READ_ 22 /* Linux 5.14, for headers that are older */
#define MADV_POPULATE_WRITE_ 23

uint64_t kernel_brings_in(const struct script_call *c)
{
	bool all = c->op == SOP_MMAP ? (c->flags & (MAP_POPULATE | MAP_LOCKED)) != 0 :
				       c->op == SOP_MADVISE && (c->advice == MADV_POPULATE_READ_ || c->advice == MADV_POPULATE_WRITE_);

	return all ? c->len : 0;
}

/* The process maps the object of that inode number; anonymous shared memory has one of its own for each mmap. */
static bool maps(struct kernel_exec *x, const struct kernel_proc *p, uint64_t inode)
{
	if (kproc_read_areas(p->pid, &x->areas))
		return true;
	for (size_t i = 0; i < x->areas.nr; i++)
		if (x->areas.v[i].inode == inode && x->areas.v[i].perms[3] == 's')
			return true;
	return false;
}

static bool anybody_maps(struct kernel_exec *x, uint64_t inode)
{
	for (uint32_t i = 0; i < KERNEL_MAX_PROCS; i++)
		if (kernel_proc(x, i) && maps(x, kernel_proc(x, i), inode))
			return true;
	return false;
}

/* Objects that nobody maps any more are gone, with all that they had. */
static void forget_objects(struct kernel_exec *x)
{
	uint64_t bytes = kernel_files_in_memory(x);
	size_t n = 0;

	for (size_t i = 0; i < x->nr_objects; i++)
		if (anybody_maps(x, x->object[i].inode)) {
			bytes += x->object[i].bytes;
			x->object[n++] = x->object[i];
		}
	x->nr_objects = n;
	x->dropped = MIN(x->dropped, bytes);
}

int kernel_note_object(struct kernel_exec *x, const struct kernel_proc *p, uint64_t at, uint64_t bytes)
{
	int rc = kproc_read_areas(p->pid, &x->areas);

	for (size_t i = 0; !rc && i < x->areas.nr; i++) {
		const struct kproc_area *a = &x->areas.v[i];
		struct kernel_object *v;

		if (at < a->start || at >= a->end)
			continue;
		v = realloc(x->object, (x->nr_objects + 1) * sizeof(*v));
		if (!v)
			return -ENOMEM;
		x->object = v;
		x->object[x->nr_objects++] = (struct kernel_object){ .inode = a->inode, .bytes = bytes };
		break;
	}
	return rc;
}

int kernel_check_memory(struct kernel_exec *x)
{
	uint64_t sum = 0, rss, shmem;

	for (uint32_t i = 0; i < KERNEL_MAX_PROCS; i++) {
		struct kernel_proc *p = kernel_proc(x, i);

		if (!p || kproc_status_bytes(p->pid, "VmRSS:", &rss) || kproc_status_bytes(p->pid, "RssShmem:", &shmem))
			continue;
		sum += rss;
		x->dropped += p->shmem > shmem ? p->shmem - shmem : 0;
		p->shmem = shmem;
	}
	if (sum + x->dropped > x->o.rss_bytes && x->dropped)
		forget_objects(x);
	return sum + x->dropped > x->o.rss_bytes ? -ENOMEM : 0;
}
