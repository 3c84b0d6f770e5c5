/*
 * The host machine's swap device: a file without a name, sparse, read and written through this computer's page cache, so what it
 * costs is what this computer's file system and drive make of it. The caller waits for it: a request is done when the call returns.
 * Any number of threads at once; the file's end is fixed.
 */
#define _GNU_SOURCE
#include "machine/host/host_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES_AT_ONCE 64U

static int open_unnamed(const char *dir)
{
	char name[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* A file system without O_TMPFILE. */
	if ((size_t)snprintf(name, sizeof(name), "%s/quire-swap-XXXXXX", dir) >= sizeof(name))
		return -1;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		(void)unlink(name);
	return fd;
}

int host_swap_open(struct host_machine *hm, uint64_t bytes, char *err, size_t errlen)
{
	const char *dir = getenv("TMPDIR");
	int rc;

	if (!dir || !dir[0])
		dir = "/var/tmp"; /* /tmp is often memory */
	hm->swap_fd = open_unnamed(dir);
	if (hm->swap_fd >= 0 && !ftruncate(hm->swap_fd, (off_t)bytes)) {
		hm->m.swap_slots = bytes >> PAGE_SHIFT;
		return 0;
	}
	rc = -errno;
	snprintf(err, errlen, "host machine: no swap file of %llu bytes in %s: %s", (unsigned long long)bytes, dir, strerror(-rc));
	return rc;
}

void host_swap_close(struct host_machine *hm)
{
	if (hm->swap_fd >= 0)
		close(hm->swap_fd);
	hm->swap_fd = -1;
}

/* All of iov, which is used up. 0 or -EIO. */
static int transfer(int fd, struct iovec *iov, int nr, off_t at, bool write)
{
	while (nr) {
		ssize_t n = write ? pwritev(fd, iov, nr, at) : preadv(fd, iov, nr, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO; /* also a file system that is full */
		at += n;
		for (; nr && (size_t)n >= iov->iov_len; nr--)
			n -= (ssize_t)(iov++)->iov_len;
		if (nr) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

int host_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns)
{
	struct iovec iov[FRAMES_AT_ONCE];

	ASSERT(nr && slot < c->m->swap_slots && nr <= c->m->swap_slots - slot);
	host_quiesce(host_cpu(c)); /* it takes long, and nobody need wait for it */
	for (unsigned at = 0, n; at < nr; at += n) {
		n = MIN(nr - at, FRAMES_AT_ONCE);
		for (unsigned i = 0; i < n; i++) {
			ASSERT_DEBUG(frames[at + i].v < c->m->max_pfn);
			iov[i] = (struct iovec){ machine_ptr(c->m, pfn_to_paddr(frames[at + i])), PAGE_SIZE };
		}
		if (transfer(host_of(c)->swap_fd, iov, (int)n, (off_t)((slot + at) << PAGE_SHIFT), write))
			return -EIO;
	}
	*ret_done_ns = host_now_ns(c);
	return 0;
}
