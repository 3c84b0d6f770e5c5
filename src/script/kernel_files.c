/*
 * Files on the kernel's side: half of them in memory, half ordinary ones without a name, opened before the processes are, which have them with the
 * same numbers. And the settings that belong to where ordinary files are.
 */
#define _GNU_SOURCE
#include "script/kernel_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

#define TMPFS_MAGIC_ 0x01021994
#define FILE_MAX_BYTES (64ULL << 20)
#define SETTLE_MS 2000
#define SYS_cachestat_ 451 /* Linux 6.5, for headers that are older */

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
int kernel_disk_read_ahead(char *path, size_t len)
{
	int fd = disk_file(), rc = -ENOENT;
	struct stat st;

	if (fd < 0)
		return rc;
	if (!fstat(fd, &st)) {
		snprintf(path, len, "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev), minor(st.st_dev));
		rc = 0;
	}
	close(fd);
	return rc;
}

bool script_kernel_file_folios(unsigned version)
{
	static const struct {
		long type;
		unsigned since;
	} have[] = { { 0xef53, 6016 }, /* ext4 */ { 0x58465342, 5018 } /* XFS */ };
	int fd = disk_file();
	struct statfs fs;
	bool found = false;

	if (fd >= 0 && !fstatfs(fd, &fs))
		for (size_t i = 0; i < ARRAY_SIZE(have); i++)
			found |= (long)fs.f_type == have[i].type && version >= have[i].since;
	if (fd >= 0)
		close(fd);
	return found;
}

/* Files have to be there before the processes are: half of the places are for each kind. */
int kernel_open_files(struct kernel_exec *x)
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

void kernel_close_files(struct kernel_exec *x)
{
	for (unsigned i = 0; i < x->nr_files; i++)
		if (x->file[i].fd >= 0)
			close(x->file[i].fd);
	x->nr_files = 0;
}

/*
 * Is any page of the file in the page cache (cachestat, 6.5) without being valid (mincore)? It is being read, or was made for a write that failed.
 * Where that cannot be told, true.
 */
static bool being_read(int fd, uint64_t bytes)
{
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} have = { 0 };
	const struct {
		uint64_t off, len;
	} all = { 0 };
	uint64_t pages = (bytes + PAGE_SIZE - 1) >> PAGE_SHIFT, valid = 0;
	unsigned char *vec;
	void *p;

	if (!bytes || syscall(SYS_cachestat_, fd, &all, &have, 0))
		return bytes != 0;
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	vec = malloc(pages);
	if (p == MAP_FAILED || !vec || mincore(p, bytes, vec))
		valid = UINT64_MAX;
	for (uint64_t i = 0; valid != UINT64_MAX && i < pages; i++)
		valid += vec[i] & 1;
	free(vec);
	if (p != MAP_FAILED)
		munmap(p, bytes);
	return valid < have.cached || valid == UINT64_MAX;
}

/* Reads that the device is at. */
static bool device_reads(dev_t dev)
{
	char path[64], now[64];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/inflight", major(dev), minor(dev));
	/* The first of its two numbers counts them. */
	return !kproc_setting(path, now, sizeof(now)) && strtoul(now, NULL, 10);
}

/* The device reads for others too, so that it may never be at rest; the file is what counts. */
void kernel_settle(const struct kernel_exec *x)
{
	struct stat st;

	for (unsigned i = 0; i < x->nr_files; i++) {
		const struct kernel_file *f = &x->file[i];

		if (f->shmem || f->number == SCRIPT_NONE || f->fd < 0 || fstat(f->fd, &st))
			continue;
		for (unsigned ms = 0; ms < SETTLE_MS && being_read(f->fd, (uint64_t)st.st_size) && device_reads(st.st_dev); ms++)
			usleep(1000);
	}
}

uint64_t kernel_files_in_memory(const struct kernel_exec *x)
{
	uint64_t bytes = 0;
	struct stat st;

	for (unsigned i = 0; i < x->nr_files; i++)
		if (x->file[i].shmem && !fstat(x->file[i].fd, &st))
			bytes += (uint64_t)st.st_blocks * 512;
	return bytes;
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

int kernel_file_create(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	bool shmem = (c->flags & 1) != 0;
	struct kernel_file *f = NULL;

	for (unsigned i = 0; !f && i < x->nr_files; i++)
		if (x->file[i].shmem == shmem && x->file[i].number == SCRIPT_NONE)
			f = &x->file[i];
	if (!f)
		return kernel_unsupported(err, errlen, "more than %d files of a kind", KERNEL_FILES / 2);
	if (f->fd < 0)
		return kernel_unsupported(err, errlen, "no directory on a file system with a page cache can be written here (TMPDIR names one)");
	if (c->len > FILE_MAX_BYTES)
		return kernel_unsupported(err, errlen, "a file of more than %llu MiB", FILE_MAX_BYTES >> 20);
	f->number = c->file;
	ret->ret = 0;
	if (shmem)
		return ftruncate(f->fd, (off_t)c->len) ? -errno : 0;
	return fill_file(f, c->len);
}

/* read(2) and write(2) of a file's bytes, from and to memory that nobody looks at, piece by piece. */
static int file_rw(struct kernel_exec *x, const struct script_call *c, int fd, struct script_result *ret)
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

int kernel_file_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen)
{
	unsigned slot = kernel_proc(x, c->proc)->slot;
	struct kernel_file *f = find_file(x, c->file);
	int fd = f && !f->closed ? f->fd : -1;
	const uint64_t truncate[6] = { (uint64_t)(int64_t)fd, c->len };
	const uint64_t copy[6] = { (uint64_t)(int64_t)fd, c->addr, c->len, c->off };

	if (grows_to(c) > FILE_MAX_BYTES)
		return kernel_unsupported(err, errlen, "a file of more than %llu MiB", FILE_MAX_BYTES >> 20);
	switch (c->op) {
	case SOP_FILE_TRUNCATE:
		return kagent_syscall(x->k, slot, SYS_ftruncate, truncate, &ret->ret);
	case SOP_FILE_READ:
	case SOP_FILE_WRITE:
		return file_rw(x, c, fd, ret);
	case SOP_PREAD:
	case SOP_PWRITE:
		return kagent_syscall(x->k, slot, c->op == SOP_PREAD ? SYS_pread64 : SYS_pwrite64, copy, &ret->ret);
	case SOP_FILE_CLOSE:
		if (f)
			f->closed = true;
		ret->ret = fd < 0 ? -EBADF : 0;
		return 0;
	default:
		return kernel_mmap(x, c, fd, ret, err, errlen);
	}
}
