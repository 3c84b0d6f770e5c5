/* The executor on the kernel underneath: calls. kernel.h has the rules, kernel_observe.c what is seen. */
#define _GNU_SOURCE
#include "script/kernel_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

#define TMPFS_MAGIC_ 0x01021994
#define FILE_MAX_BYTES (64ULL << 20)
#define SLEEP_MAX_MS 10000
#define ACCESS_PIECE (64ULL << 20)
#define MADV_POPULATE_READ_ 22 /* Linux 5.14, for headers that are older */
#define MADV_POPULATE_WRITE_ 23
#define USER_END 0x7ffffffff000ULL
#define MOVE_MAX_PAGES (KAGENT_BUF / 16)

static struct kernel_exec *kernel(struct script_exec *x)
{
	return (struct kernel_exec *)(void *)x;
}

ATTR_PRINTF(3, 4) static int unsupported(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return -EOPNOTSUPP;
}

int script_kernel_create(const struct script_kernel_options *o, struct script_exec **ret)
{
	struct kernel_exec *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->o = *o;
	if (!x->o.as_bytes)
		x->o.as_bytes = 4ULL << 30;
	if (!x->o.memlock_bytes)
		x->o.memlock_bytes = 8ULL << 20;
	if (!x->o.rss_bytes)
		x->o.rss_bytes = 1ULL << 30;
	if (!x->o.timeout_ms)
		x->o.timeout_ms = 10000;
	*ret = (struct script_exec *)(void *)x;
	return 0;
}

void script_kernel_destroy(struct script_exec *x)
{
	if (!x)
		return;
	kproc_areas_done(&kernel(x)->areas);
	free(x);
}

void script_kernel_place(struct script_exec *sx, uint64_t top, uint64_t heap)
{
	kernel(sx)->o.top = top;
	kernel(sx)->o.heap = heap;
}

struct script_kernel_layout script_kernel_layout(const struct script_exec *sx)
{
	const struct kernel_exec *x = (const struct kernel_exec *)(const void *)sx;
	const struct kagent_layout *l = kagents_layout(x->k);

	return (struct script_kernel_layout){ .top = l->top, .heap = l->heap, .as_bytes = x->as_bytes, .memlock_bytes = x->memlock };
}

/* ---- settings ---- */

/* An ordinary file that has no name, on a real file system. -1: none can be had. */
static int disk_file(void)
{
	const char *dirs[] = { getenv("TMPDIR"), "/var/tmp", "/tmp", "." };
	struct statfs fs;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		int fd = dirs[i] ? open(dirs[i], O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) : -1;

		if (fd < 0)
			continue;
		if (!fstatfs(fd, &fs) && fs.f_type != TMPFS_MAGIC_)
			return fd;
		close(fd);
	}
	return -1;
}

/* Of the device that ordinary files are on. */
static int disk_read_ahead(char *buf, size_t len)
{
	int fd = disk_file(), rc = -ENOENT;
	char path[64];
	struct stat st;

	if (fd < 0)
		return rc;
	if (!fstat(fd, &st)) {
		snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev), minor(st.st_dev));
		rc = kproc_setting(path, buf, len) ? -ENOENT : 0;
	}
	close(fd);
	return rc;
}

int script_kernel_setting(const char *name, char *buf, size_t len)
{
	static const char sysfs[] = "transparent_hugepage.";
	char path[200];
	size_t n = 0;

	if (!strcmp(name, "bdi.read_ahead_kb"))
		return disk_read_ahead(buf, len);
	if (!strncmp(name, sysfs, strlen(sysfs)))
		n = (size_t)snprintf(path, sizeof(path), "/sys/kernel/mm/%s", name);
	else if (!strncmp(name, "vm.", 3) || !strncmp(name, "kernel.", 7))
		n = (size_t)snprintf(path, sizeof(path), "/proc/sys/%s", name);
	if (!n || n >= sizeof(path) || strstr(name, "..") || strchr(name, '/'))
		return -ENOENT;
	for (char *p = path; *p; p++)
		if (*p == '.')
			*p = '/';
	return kproc_setting(path, buf, len) ? -ENOENT : 0;
}

/* What the kernel has is what it keeps. */
static int check_setting(const char *name, const char *value, char *err, size_t errlen)
{
	char now[64];

	if (script_kernel_setting(name, now, sizeof(now)))
		return unsupported(err, errlen, "the kernel underneath has no setting %s", name);
	if (strcmp(now, value))
		return unsupported(err, errlen, "%s is %s in the kernel underneath, and settings there are only read", name, now);
	return 0;
}

/* ---- files ---- */

/* Files have to be there before the processes are: half of the places are for each kind. */
static int open_files(struct kernel_exec *x)
{
	struct stat st;

	for (unsigned i = 0; i < KERNEL_FILES; i++) {
		struct kernel_file *f = &x->file[i];

		f->shmem = i % 2 == 0;
		f->number = SCRIPT_NONE;
		f->fd = f->shmem ? (int)syscall(SYS_memfd_create, "quire", MFD_CLOEXEC) : disk_file();
		if (f->fd >= 0 && !fstat(f->fd, &st))
			f->inode = st.st_ino;
		else if (f->shmem)
			return -errno;
		x->nr_files = i + 1;
	}
	return 0;
}

static void close_files(struct kernel_exec *x)
{
	for (unsigned i = 0; i < x->nr_files; i++)
		if (x->file[i].fd >= 0)
			close(x->file[i].fd);
	x->nr_files = 0;
}

static bool uses(const struct script_block *b, enum script_op op)
{
	for (size_t i = 0; i < b->nr; i++)
		if ((b->s[i]->kind == SSTMT_CALL && b->s[i]->op == op) || uses(&b->s[i]->body, op) || uses(&b->s[i]->other, op))
			return true;
	return false;
}

static struct kernel_file *find_file(struct kernel_exec *x, uint32_t number)
{
	for (unsigned i = 0; number != SCRIPT_NONE && i < x->nr_files; i++)
		if (x->file[i].number == number)
			return &x->file[i];
	return NULL;
}

/* Fill an ordinary file, and leave none of it in the page cache. */
static int fill_file(const struct kernel_file *f, uint64_t len)
{
	uint64_t v;

	for (uint64_t i = 0; i << PAGE_SHIFT < len; i++) {
		v = script_file_value(f->number, i);
		if (pwrite(f->fd, &v, MIN(sizeof(v), len - (i << PAGE_SHIFT)), (off_t)(i << PAGE_SHIFT)) < 0)
			return -errno;
	}
	if (ftruncate(f->fd, (off_t)len) || fsync(f->fd))
		return -errno;
	return -posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int file_create_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	bool shmem = (c->flags & 1) != 0;
	struct kernel_file *f = NULL;

	for (unsigned i = 0; !f && i < x->nr_files; i++)
		if (x->file[i].shmem == shmem && x->file[i].number == SCRIPT_NONE)
			f = &x->file[i];
	if (!f)
		return unsupported(err, errlen, "more than %d files of a kind", KERNEL_FILES / 2);
	if (f->fd < 0)
		return unsupported(err, errlen, "no directory on a file system with a page cache can be written here (TMPDIR names one)");
	if (c->len > FILE_MAX_BYTES)
		return unsupported(err, errlen, "a file of more than %llu MiB", FILE_MAX_BYTES >> 20);
	f->number = c->file;
	ret->ret = 0;
	if (shmem)
		return ftruncate(f->fd, (off_t)c->len) ? -errno : 0;
	return fill_file(f, c->len);
}

/* ---- processes ---- */

struct kernel_proc *kernel_proc(struct kernel_exec *x, uint32_t number)
{
	return number < KERNEL_MAX_PROCS && x->proc[number].known && x->proc[number].slot < KAGENT_MAX ? &x->proc[number] : NULL;
}

/* Nothing of the agent's own is left to be faulted in by the next order. */
static void warm_up(struct kernel_exec *x, unsigned slot)
{
	const struct kagent_accesses none = { .how = KAGENT_TOUCH_READ }, bad = { .how = KAGENT_TOUCH_READ, .va = 8, .nr = 1 };
	const struct kagent_accesses buffer = { .how = KAGENT_TOUCH_WRITE, .va = kagent_buffer_va(x->k, slot), .stride = PAGE_SIZE,
						.nr = KAGENT_BUF / PAGE_SIZE };
	const uint64_t no_args[6] = { 0 };
	uint64_t done, value;
	int64_t r;
	int sig;

	for (int i = 0; i < 2; i++) {
		(void)kagent_syscall(x->k, slot, -1, no_args, &r); /* fails: errno is written */
		(void)kagent_access(x->k, slot, &buffer, &done, &value, &sig);
		(void)kagent_access(x->k, slot, &none, &done, &value, &sig);
		(void)kagent_access(x->k, slot, &bad, &done, &value, &sig);
	}
}

static int fork_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	struct kernel_proc *p = kernel_proc(x, c->proc), *child;
	unsigned slot = 0;
	int rc;

	while (slot < KAGENT_MAX && x->slot_used[slot])
		slot++;
	if (c->target >= KERNEL_MAX_PROCS || slot == KAGENT_MAX)
		return unsupported(err, errlen, "more than %d processes at once, or %d in all", KAGENT_MAX, KERNEL_MAX_PROCS);
	rc = kagent_fork(x->k, p->slot, slot, &ret->ret);
	if (rc || ret->ret < 0)
		return rc;
	child = &x->proc[c->target];
	*child = (struct kernel_proc){ .known = true, .parent = c->proc, .slot = slot, .pid = kagents_pid(x->k, slot) };
	x->slot_used[slot] = true;
	warm_up(x, p->slot);
	warm_up(x, slot);
	kernel_count_from_here(x, p);
	kernel_count_from_here(x, child);
	return 0;
}

static int exit_step(struct kernel_exec *x, const struct script_call *c)
{
	struct kernel_proc *p = kernel_proc(x, c->proc);
	int rc = kagent_exit(x->k, p->slot);

	x->slot_used[p->slot] = false;
	p->slot = KAGENT_MAX;
	return rc;
}

static int wait_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	struct kernel_proc *t = c->target < KERNEL_MAX_PROCS ? &x->proc[c->target] : NULL;

	if (!t || !t->known || t->parent != c->proc || t->waited) {
		ret->ret = -ECHILD;
		return 0;
	}
	t->waited = true;
	return kagent_wait(x->k, kernel_proc(x, c->proc)->slot, t->pid);
}

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
	} while (!rc && !*ret_signal && *ret_done < all->nr && !kagents_check(x->k));
	return rc;
}

static int access_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
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
	kernel_proc(x, c->proc)->sigbus = ret->signal == SIGBUS;
	if (c->op == SOP_READ && !ret->signal)
		ret->value = (int64_t)value;
	return rc;
}

/* ---- calls with arrays ---- */

static int mincore_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t pages = (c->len >> PAGE_SHIFT) + !IS_ALIGNED(c->len, PAGE_SIZE);
	const uint64_t args[6] = { c->addr, c->len, kagent_buffer_va(x->k, slot) };
	const uint8_t *vec = kagent_buffer(x->k, slot);
	int rc;

	/* Longer ones than user space are refused before anything is written. */
	if (pages > KAGENT_BUF && c->len < USER_END && c->addr < USER_END - c->len)
		return unsupported(err, errlen, "mincore of more than %u pages", KAGENT_BUF);
	rc = kagent_syscall(x->k, slot, SYS_mincore, args, &ret->ret);
	for (uint64_t i = 0; !rc && !ret->ret && i < pages; i++)
		ret->count += vec[i] & 1;
	return rc;
}

static int move_pages_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t nr = c->len >> PAGE_SHIFT, at = kagent_buffer_va(x->k, slot);
	uint64_t *page = kagent_buffer(x->k, slot);
	int32_t *node = (int32_t *)(void *)(page + nr), *status = node + nr;
	const uint64_t args[6] = { 0, nr, at, c->node < 0 ? 0 : at + nr * 8, at + nr * 12, c->flags };
	int rc;

	if (nr > MOVE_MAX_PAGES)
		return unsupported(err, errlen, "move_pages of more than %u pages", MOVE_MAX_PAGES);
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

static int policy_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t *mask = kagent_buffer(x->k, slot), at = c->nodes ? kagent_buffer_va(x->k, slot) : 0;
	const uint64_t bind[6] = { c->addr, c->len, c->mode, at, c->nodes ? 65 : 0, c->flags };
	const uint64_t set[6] = { c->mode, at, c->nodes ? 65 : 0 };

	*mask = c->nodes;
	return c->op == SOP_MBIND ? kagent_syscall(x->k, slot, SYS_mbind, bind, &ret->ret) :
				    kagent_syscall(x->k, slot, SYS_set_mempolicy, set, &ret->ret);
}

static int sbrk_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
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

/* read(2) and write(2) of a file's bytes, from and to memory that nobody looks at, piece by piece. */
static int file_rw_step(struct kernel_exec *x, const struct script_call *c, int fd, struct script_result *ret)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	long nr = c->op == SOP_FILE_READ ? SYS_pread64 : SYS_pwrite64;
	uint64_t done = 0, *words = kagent_buffer(x->k, slot);
	int64_t n = 0;
	int rc = 0;

	for (size_t i = 0; c->op == SOP_FILE_WRITE && i < KAGENT_BUF / sizeof(*words); i++)
		words[i] = (uint64_t)c->value;
	while (!rc && done < c->len) {
		const uint64_t args[6] = { (uint64_t)fd, kagent_buffer_va(x->k, slot), MIN(c->len - done, KAGENT_BUF), c->off + done };

		rc = kagent_syscall(x->k, slot, nr, args, &n);
		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	ret->ret = done || n >= 0 ? (int64_t)done : n;
	return rc;
}

/* ---- plain calls: the arguments as they are ---- */

static int mmap_step(struct kernel_exec *x, const struct script_call *c, int fd, struct script_result *ret, char *err,
		     size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	uint64_t args[6] = { c->addr, c->len, c->prot, c->flags, (uint64_t)(int64_t)fd, c->off };
	uint64_t room[6] = { 0, c->len + c->align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1, 0 };
	int64_t at, r;
	int rc;

	if ((c->flags & MAP_32BIT) && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		return unsupported(err, errlen, "where MAP_32BIT places is random in this process");
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

static int plain_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret)
{
	uint64_t args[6];

	plain_args(c, args);
	return kagent_syscall(x->k, kernel_proc(x, c->proc)->slot, plain_number(c->op), args, &ret->ret);
}

/* How large a file this call can make. */
static uint64_t grows_to(const struct script_call *c)
{
	switch (c->op) {
	case SOP_FILE_TRUNCATE:
		return c->len;
	case SOP_FILE_WRITE:
	case SOP_PWRITE:
		return c->off + c->len;
	default:
		return 0;
	}
}

static int file_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	struct kernel_file *f = find_file(x, c->file);
	int fd = f && !f->closed ? f->fd : -1;
	const uint64_t truncate[6] = { (uint64_t)(int64_t)fd, c->len };
	const uint64_t copy[6] = { (uint64_t)(int64_t)fd, c->addr, c->len, c->off };

	if (grows_to(c) > FILE_MAX_BYTES)
		return unsupported(err, errlen, "a file of more than %llu MiB", FILE_MAX_BYTES >> 20);
	switch (c->op) {
	case SOP_FILE_TRUNCATE:
		return kagent_syscall(x->k, slot, SYS_ftruncate, truncate, &ret->ret);
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
		return file_rw_step(x, c, fd, ret);
	case SOP_PREAD:
	case SOP_PWRITE:
		return kagent_syscall(x->k, slot, c->op == SOP_PREAD ? SYS_pread64 : SYS_pwrite64, copy, &ret->ret);
	case SOP_FILE_CLOSE:
		if (f)
			f->closed = true;
		ret->ret = fd < 0 ? -EBADF : 0;
		return 0;
	default:
		return mmap_step(x, c, fd, ret, err, errlen);
	}
}

static int sleep_step(const struct script_call *c, char *err, size_t errlen)
{
	if (c->value > SLEEP_MAX_MS)
		return unsupported(err, errlen, "sleep of more than %d ms", SLEEP_MAX_MS);
	usleep((useconds_t)c->value * 1000);
	return 0;
}

static int dispatch(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	switch (c->op) {
	case SOP_MINCORE:
		return mincore_step(x, c, ret, err, errlen);
	case SOP_MBIND:
	case SOP_SET_MEMPOLICY:
		return policy_step(x, c, ret);
	case SOP_MOVE_PAGES:
		return move_pages_step(x, c, ret, err, errlen);
	case SOP_SBRK:
		return x->o.heap && kagents_layout(x->k)->heap ? sbrk_step(x, c, ret) :
								 unsupported(err, errlen, "the break cannot be placed in this kernel");
	case SOP_BRK:
		return x->o.heap && kagents_layout(x->k)->heap ? plain_step(x, c, ret) :
								 unsupported(err, errlen, "the break cannot be placed in this kernel");
	case SOP_TOUCH:
	case SOP_READ:
	case SOP_WRITE:
	case SOP_FILL:
		return access_step(x, c, ret);
	case SOP_FILE_CREATE:
		return file_create_step(x, c, ret, err, errlen);
	case SOP_MMAP:
	case SOP_FILE_TRUNCATE:
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
	case SOP_FILE_CLOSE:
	case SOP_PREAD:
	case SOP_PWRITE:
		return file_step(x, c, ret, err, errlen);
	case SOP_FORK:
		return fork_step(x, c, ret, err, errlen);
	case SOP_EXIT:
		return exit_step(x, c);
	case SOP_WAIT:
		return wait_step(x, c, ret);
	case SOP_CPU:
	case SOP_THREAD:
	case SOP_IDLE: /* between its calls a thread sleeps anyway */
		return 0;
	case SOP_SET:
		return check_setting(c->name, c->text, err, errlen);
	case SOP_SLEEP:
		return sleep_step(c, err, errlen);
	case SOP_PIN:
	case SOP_UNPIN:
	case NR_SCRIPT_OPS:
		return unsupported(err, errlen, "programs cannot pin memory with a system call of their own");
	default:
		return plain_step(x, c, ret);
	}
}

/* Brought in by one call, in the midst of which nobody can look. */
static uint64_t brings_in(const struct script_call *c)
{
	bool all = c->op == SOP_MMAP ? (c->flags & (MAP_POPULATE | MAP_LOCKED)) != 0 :
				       c->op == SOP_MADVISE && (c->advice == MADV_POPULATE_READ_ || c->advice == MADV_POPULATE_WRITE_);

	return all ? c->len : 0;
}

static int step(struct script_exec *sx, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	struct kernel_proc *p = kernel_proc(x, c->proc);
	int rc;

	*ret = (struct script_result){ 0 };
	if (!p) {
		snprintf(err, errlen, "process %u does not exist on the kernel's side", c->proc);
		return -ESRCH;
	}
	/* What is larger than the address space is refused by the kernel. */
	if (brings_in(c) > x->o.rss_bytes && brings_in(c) <= x->as_bytes)
		return unsupported(err, errlen, "bringing in more than %llu MiB at once", (unsigned long long)(x->o.rss_bytes >> 20));
	kernel_count_from_here(x, p);
	rc = dispatch(x, c, ret, err, errlen);
	if (rc == -EOPNOTSUPP)
		return rc;
	if (!rc && kagents_check(x->k)) {
		snprintf(err, errlen, "the script's processes have more than %llu MiB resident", (unsigned long long)(x->o.rss_bytes >> 20));
		return -EOPNOTSUPP;
	}
	if (rc)
		snprintf(err, errlen, "%s: the process on the kernel's side is gone or does not answer (%s)", "step", strerror(-rc));
	return rc;
}

/* ---- runs ---- */

static uint64_t memlock_limit(uint64_t wanted)
{
	struct rlimit r;

	return getrlimit(RLIMIT_MEMLOCK, &r) || r.rlim_max > wanted ? wanted : r.rlim_max;
}

static int begin(struct script_exec *sx, const struct script *s, const struct script_setting *set, size_t nr_set, uint64_t *ret_arena,
		 uint64_t *ret_arena_len, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	bool lock_all = uses(&s->body, SOP_MLOCKALL);
	struct kagent_limits limits = {
		.may_lock = lock_all,
		.stack_bytes = 8ULL << 20,
		.rss_bytes = x->o.rss_bytes,
		.timeout_ms = x->o.timeout_ms,
	};
	int rc;

	x->memlock = lock_all ? UINT64_MAX : memlock_limit(x->o.memlock_bytes);
	/* Whoever may lock all may bring all in with one call. */
	x->as_bytes = lock_all ? MIN(x->o.as_bytes, x->o.rss_bytes) : x->o.as_bytes;
	limits.as_bytes = x->as_bytes;
	limits.memlock_bytes = x->memlock;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (lock_all)
		return unsupported(err, errlen, "a program under a sanitizer cannot lock all of its memory");
#endif
	if (lock_all && prctl(PR_CAPBSET_READ, CAP_IPC_LOCK) != 1)
		return unsupported(err, errlen, "locking all memory needs CAP_IPC_LOCK here");
	memset(x->proc, 0, sizeof(x->proc));
	memset(x->slot_used, 0, sizeof(x->slot_used));
	for (size_t i = 0; i < nr_set; i++) {
		rc = check_setting(set[i].name, set[i].value, err, errlen);
		if (rc)
			return rc;
	}
	rc = uses(&s->body, SOP_FILE_CREATE) ? open_files(x) : 0;
	if (rc) {
		snprintf(err, errlen, "no file in memory can be made: %s", strerror(-rc));
		return rc;
	}
	rc = kagents_start(&limits, x->o.heap, x->o.top, &x->k, err, errlen);
	if (rc)
		return rc;
	x->proc[0] = (struct kernel_proc){ .known = true, .pid = kagents_pid(x->k, 0) };
	x->slot_used[0] = true;
	warm_up(x, 0);
	*ret_arena = KERNEL_ARENA;
	*ret_arena_len = KERNEL_ARENA_LEN;
	return 0;
}

static void end(struct script_exec *sx)
{
	struct kernel_exec *x = kernel(sx);

	kagents_stop(x->k);
	x->k = NULL;
	close_files(x);
}

static int mark(struct script_exec *x, char *err, size_t errlen)
{
	(void)x, (void)err, (void)errlen;
	return 0;
}

static int counter(struct script_exec *sx, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	struct kernel_exec *x = kernel(sx);
	const char *name = !strncmp(r->name, "vmstat.", 7) ? r->name + 7 : NULL;

	if (name && x->o.global_counters && !kproc_vmstat(&name, 1, ret))
		return 0;
	snprintf(err, errlen, "%s is not counted on the kernel's side", r->name);
	return -ENOENT;
}

const struct script_exec_ops script_kernel_ops = {
	.kind = "kernel",
	.begin = begin,
	.step = step,
	.observe = kernel_observe,
	.mark = mark,
	.counter = counter,
	.end = end,
};
