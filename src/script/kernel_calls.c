/* Calls and accesses on the kernel's side: what the process of the script is asked to do. kernel.c chooses among them, kernel_files.c has those on files. */
#define _GNU_SOURCE
#include "script/kernel_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

#define ACCESS_PIECE (64ULL << 20)
#define USER_END 0x7ffffffff000ULL
#define MOVE_MAX_PAGES (KAGENT_BUF / 16)

/* ---- accesses ---- */

/* Piece by piece: one call must not bring in much more than all processes may have before somebody looks (step). */
static int access_pieces(struct kernel_exec *x, unsigned slot, const struct kagent_accesses *all, uint64_t *ret_done, uint64_t *ret_value,
			 int *ret_signal)
{
	uint64_t most = MAX(ACCESS_PIECE / all->stride, 1ULL), n;
	struct kagent_accesses a = *all;
	int rc;

	*ret_done = 0;
	do {
		a.nr = MIN(all->nr - *ret_done, most);
		rc = kagent_access(x->k, slot, &a, &n, ret_value, ret_signal);
		*ret_done += n;
		a.va += n * a.stride;
		a.value += n;
	} while (!rc && !*ret_signal && *ret_done < all->nr && !kernel_check_memory(x));
	return rc;
}

int kernel_access(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	struct kagent_accesses a = { .va = c->addr, .stride = c->step ? c->step : PAGE_SIZE, .nr = 1, .value = (uint64_t)c->value };
	uint64_t value, done;
	int rc;

	switch (c->op) {
	case SOP_TOUCH:
		a.how = c->write ? KAGENT_TOUCH_WRITE : KAGENT_TOUCH_READ;
		a.nr = c->len / a.stride + (c->len % a.stride != 0);
		break;
	case SOP_READ:
		a.how = KAGENT_LOAD;
		a.va &= PAGE_MASK;
		break;
	case SOP_WRITE:
		a.how = KAGENT_STORE;
		a.va &= PAGE_MASK;
		break;
	default:
		a.how = KAGENT_STORE;
		a.nr = c->len / a.stride + (c->len % a.stride != 0);
		break;
	}
	rc = access_pieces(x, kernel_proc(x, c->proc)->slot, &a, &done, &value, &ret->signal);
	if (c->op == SOP_TOUCH || c->op == SOP_FILL)
		ret->count = done;
	ret->ret = ret->signal ? -EFAULT : 0;
	if (c->op == SOP_READ && !ret->signal)
		ret->value = (int64_t)value;
	return rc;
}

/* ---- calls with arrays ---- */

int kernel_mincore(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t pages = (c->len >> PAGE_SHIFT) + !IS_ALIGNED(c->len, PAGE_SIZE);
	const uint64_t args[6] = { c->addr, c->len, kagent_buffer_va(x->k, slot) };
	const uint8_t *vec = kagent_buffer(x->k, slot);
	int rc;

	/* Longer ones than user space are refused before anything is written. */
	if (pages > KAGENT_BUF && c->len < USER_END && c->addr < USER_END - c->len)
		return kernel_unsupported(err, errlen, "mincore of more than %u pages", KAGENT_BUF);
	rc = kagent_syscall(x->k, slot, SYS_mincore, args, &ret->ret);
	for (uint64_t i = 0; !rc && !ret->ret && i < pages; i++)
		ret->count += vec[i] & 1;
	return rc;
}

int kernel_move_pages(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t nr = c->len >> PAGE_SHIFT, at = kagent_buffer_va(x->k, slot);
	uint64_t *page = kagent_buffer(x->k, slot);
	int32_t *node = (int32_t *)(void *)(page + nr), *status = node + nr;
	const uint64_t args[6] = { 0, nr, at, c->node < 0 ? 0 : at + nr * 8, at + nr * 12, c->flags };
	int rc;

	if (nr > MOVE_MAX_PAGES)
		return kernel_unsupported(err, errlen, "move_pages of more than %u pages", MOVE_MAX_PAGES);
	for (uint64_t i = 0; i < nr; i++) {
		page[i] = c->addr + (i << PAGE_SHIFT);
		node[i] = c->node;
		status[i] = -1;
	}
	rc = kagent_syscall(x->k, slot, SYS_move_pages, args, &ret->ret);
	for (uint64_t i = 0; !rc && i < nr; i++)
		ret->count += c->node >= 0 && status[i] == c->node;
	return rc;
}

int kernel_policy(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t *mask = kagent_buffer(x->k, slot), at = c->nodes ? kagent_buffer_va(x->k, slot) : 0;
	const uint64_t bind[6] = { c->addr, c->len, c->mode, at, c->nodes ? 65 : 0, c->flags };
	const uint64_t set[6] = { c->mode, at, c->nodes ? 65 : 0 };

	*mask = c->nodes;
	return c->op == SOP_MBIND ? kagent_syscall(x->k, slot, SYS_mbind, bind, &ret->ret) :
				    kagent_syscall(x->k, slot, SYS_set_mempolicy, set, &ret->ret);
}

int kernel_sbrk(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t args[6] = { 0 };
	int64_t before;
	int rc = kagent_syscall(x->k, slot, SYS_brk, args, &before);

	if (rc)
		return rc;
	args[0] = (uint64_t)before + (uint64_t)c->value;
	rc = kagent_syscall(x->k, slot, SYS_brk, args, &ret->ret);
	ret->ret = (uint64_t)ret->ret == args[0] ? before : -ENOMEM;
	return rc;
}

/* ---- plain calls: the arguments as they are ---- */

int kernel_mmap(struct kernel_exec *x, const struct script_call *c, int fd, struct script_result *ret, char *err,
		     size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t args[6] = { c->addr, c->len, c->prot, c->flags, (uint64_t)(int64_t)fd, c->off };
	uint64_t room[6] = { 0, c->len + c->align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1, 0 };
	int64_t at, r;
	int rc;

	if ((c->flags & MAP_32BIT) && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		return kernel_unsupported(err, errlen, "where MAP_32BIT places is random in this process");
	if (c->align <= PAGE_SIZE || c->addr || (c->flags & MAP_FIXED))
		return kagent_syscall(x->k, slot, SYS_mmap, args, &ret->ret);
	rc = kagent_syscall(x->k, slot, SYS_mmap, room, &at);
	if (rc || at < 0) {
		ret->ret = at;
		return rc;
	}
	args[0] = ALIGN_UP((uint64_t)at, c->align);
	room[0] = (uint64_t)at;
	rc = kagent_syscall(x->k, slot, SYS_munmap, room, &r);
	if (!rc)
		rc = kagent_syscall(x->k, slot, SYS_mmap, args, &ret->ret);
	return rc;
}

static long plain_number(enum script_op op)
{
	static const long nr[NR_SCRIPT_OPS] = {
		[SOP_MUNMAP] = SYS_munmap,   [SOP_MPROTECT] = SYS_mprotect, [SOP_MREMAP] = SYS_mremap, [SOP_MADVISE] = SYS_madvise,
		[SOP_MSYNC] = SYS_msync,     [SOP_MLOCK] = SYS_mlock,	    [SOP_MLOCK2] = SYS_mlock2, [SOP_MUNLOCK] = SYS_munlock,
		[SOP_MLOCKALL] = SYS_mlockall, [SOP_MUNLOCKALL] = SYS_munlockall, [SOP_BRK] = SYS_brk, [SOP_PRCTL_THP] = SYS_prctl,
	};

	return nr[op];
}

static void plain_args(const struct script_call *c, uint64_t a[6])
{
	memset(a, 0, 6 * sizeof(a[0]));
	a[0] = c->addr;
	a[1] = c->len;
	switch (c->op) {
	case SOP_MPROTECT:
		a[2] = c->prot;
		break;
	case SOP_MREMAP:
		a[2] = c->len2;
		a[3] = c->flags;
		a[4] = c->addr2;
		break;
	case SOP_MADVISE:
		a[2] = (uint64_t)(int64_t)c->advice;
		break;
	case SOP_MSYNC:
	case SOP_MLOCK2:
		a[2] = c->flags;
		break;
	case SOP_MLOCKALL:
		a[0] = c->flags;
		break;
	case SOP_PRCTL_THP:
		a[0] = PR_SET_THP_DISABLE;
		a[1] = (uint64_t)c->value;
		break;
	default:
		break;
	}
}

int kernel_plain(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	uint64_t args[6];

	plain_args(c, args);
	return kagent_syscall(x->k, kernel_proc(x, c->proc)->slot, plain_number(c->op), args, &ret->ret);
}
