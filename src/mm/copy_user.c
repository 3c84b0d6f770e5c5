/*
 * Kernel copies to and from user memory: accesses of the machine through the current address space, faulting as the
 * program's own do. A cache line at a time, as a wide copy loop goes: one load and one store a line.
 */
#include "base/errno.h"
#include "mm/fault.h"

#define COPY_LINE_INSNS 2

static int copy_run(struct cpu *c, vaddr_t va, uint64_t n, unsigned size, unsigned flags)
{
	uint64_t done = 0;

	(void)machine_work(c, PATH_KERNEL_COPY, n);
	return c->m->ops->access_run(c, va, size, n, size, flags, COPY_LINE_INSNS, &done);
}

int mm_copy_user(struct cpu *c, vaddr_t va, uint64_t len, bool write)
{
	enum machine_path prev = machine_work(c, PATH_KERNEL_COPY, 0);
	unsigned flags = write ? ACCESS_WRITE : 0;
	uint64_t head = MIN(len, -va & (CACHE_LINE - 1)), tail;
	int rc = 0;

	if (va > TASK_SIZE || len > TASK_SIZE - va)
		rc = -EFAULT;
	if (!rc && head)
		rc = copy_run(c, va, 1, (unsigned)head, flags);
	tail = (len - head) % CACHE_LINE;
	if (!rc && len - head >= CACHE_LINE)
		rc = copy_run(c, va + head, (len - head) / CACHE_LINE, CACHE_LINE, flags);
	if (!rc && tail)
		rc = copy_run(c, va + len - tail, 1, (unsigned)tail, flags);
	machine_path(c, prev);
	return rc;
}
