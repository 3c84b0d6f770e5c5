/*
 * Which user memory, and which file, the kernel used during a call (design rule 8), from one table.
 *
 * Not in it: path names and other strings, control structures of ioctl and fcntl, signal frames; all small and
 * touched by the program itself just before or after.
 */
#define _GNU_SOURCE
#include "record/plugin/plugin.h"

#include <errno.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* How long the buffer in argument `arg` is. */
enum len_kind {
	LEN_RET,    /* what the call returned, in units of x bytes */
	LEN_FIXED,  /* x bytes */
	LEN_ARG,    /* argument x */
	LEN_ITEMS,  /* argument `other` items of x bytes */
	LEN_BITS,   /* argument `other` bits, in bytes */
	LEN_VALUE,  /* the 32-bit word that argument x points to (a socklen_t) */
	LEN_PAGES,  /* a byte for each page of length argument x */
	LEN_IOVEC,  /* argument is an array of x-th argument iovecs; bytes returned in all */
	LEN_MSG,    /* a msghdr; bytes returned in all */
	LEN_MSGS,   /* as many mmsghdrs as were returned */
};

struct buffer_rule {
	uint16_t nr;
	uint8_t arg;
	uint8_t written; /* by the kernel */
	uint8_t kind, other;
	uint16_t x;
};

#define R(nr_, arg_, written_, kind_, other_, x_) \
	{ .nr = (nr_), .arg = (arg_), .written = (written_), .kind = (kind_), .other = (other_), .x = (x_) }

/* In order of call numbers (x86-64). */
static const struct buffer_rule rules[] = {
	R(0, 1, 1, LEN_RET, 0, 1),       /* read */
	R(1, 1, 0, LEN_RET, 0, 1),       /* write */
	R(4, 1, 1, LEN_FIXED, 0, 144),   /* stat */
	R(5, 1, 1, LEN_FIXED, 0, 144),   /* fstat */
	R(6, 1, 1, LEN_FIXED, 0, 144),   /* lstat */
	R(7, 0, 1, LEN_ITEMS, 1, 8),     /* poll */
	R(13, 1, 0, LEN_FIXED, 0, 32),   /* rt_sigaction */
	R(13, 2, 1, LEN_FIXED, 0, 32),
	R(14, 1, 0, LEN_FIXED, 0, 8),    /* rt_sigprocmask */
	R(14, 2, 1, LEN_FIXED, 0, 8),
	R(17, 1, 1, LEN_RET, 0, 1),      /* pread64 */
	R(18, 1, 0, LEN_RET, 0, 1),      /* pwrite64 */
	R(19, 1, 1, LEN_IOVEC, 0, 2),    /* readv */
	R(20, 1, 0, LEN_IOVEC, 0, 2),    /* writev */
	R(22, 0, 1, LEN_FIXED, 0, 8),    /* pipe */
	R(23, 1, 1, LEN_BITS, 0, 0),     /* select */
	R(23, 2, 1, LEN_BITS, 0, 0),
	R(23, 3, 1, LEN_BITS, 0, 0),
	R(27, 2, 1, LEN_PAGES, 0, 1),    /* mincore */
	R(35, 0, 0, LEN_FIXED, 0, 16),   /* nanosleep */
	R(42, 1, 0, LEN_ARG, 0, 2),      /* connect */
	R(43, 1, 1, LEN_VALUE, 0, 2),    /* accept */
	R(44, 1, 0, LEN_RET, 0, 1),      /* sendto */
	R(45, 1, 1, LEN_RET, 0, 1),      /* recvfrom */
	R(45, 4, 1, LEN_VALUE, 0, 5),
	R(46, 1, 0, LEN_MSG, 0, 0),      /* sendmsg */
	R(47, 1, 1, LEN_MSG, 0, 0),      /* recvmsg */
	R(49, 1, 0, LEN_ARG, 0, 2),      /* bind */
	R(51, 1, 1, LEN_VALUE, 0, 2),    /* getsockname */
	R(52, 1, 1, LEN_VALUE, 0, 2),    /* getpeername */
	R(53, 3, 1, LEN_FIXED, 0, 8),    /* socketpair */
	R(54, 3, 0, LEN_ARG, 0, 4),      /* setsockopt */
	R(55, 3, 1, LEN_VALUE, 0, 4),    /* getsockopt */
	R(61, 1, 1, LEN_FIXED, 0, 4),    /* wait4 */
	R(61, 3, 1, LEN_FIXED, 0, 144),
	R(63, 0, 1, LEN_FIXED, 0, 390),  /* uname */
	R(78, 1, 1, LEN_RET, 0, 1),      /* getdents */
	R(79, 0, 1, LEN_RET, 0, 1),      /* getcwd */
	R(89, 1, 1, LEN_RET, 0, 1),      /* readlink */
	R(96, 0, 1, LEN_FIXED, 0, 16),   /* gettimeofday */
	R(97, 1, 1, LEN_FIXED, 0, 16),   /* getrlimit */
	R(98, 1, 1, LEN_FIXED, 0, 144),  /* getrusage */
	R(99, 0, 1, LEN_FIXED, 0, 112),  /* sysinfo */
	R(100, 0, 1, LEN_FIXED, 0, 32),  /* times */
	R(115, 1, 1, LEN_RET, 0, 4),     /* getgroups */
	R(131, 0, 0, LEN_FIXED, 0, 24),  /* sigaltstack */
	R(131, 1, 1, LEN_FIXED, 0, 24),
	R(137, 1, 1, LEN_FIXED, 0, 120), /* statfs */
	R(138, 1, 1, LEN_FIXED, 0, 120), /* fstatfs */
	R(191, 2, 1, LEN_RET, 0, 1),     /* getxattr */
	R(192, 2, 1, LEN_RET, 0, 1),     /* lgetxattr */
	R(193, 2, 1, LEN_RET, 0, 1),     /* fgetxattr */
	R(203, 2, 0, LEN_ARG, 0, 1),     /* sched_setaffinity */
	R(204, 2, 1, LEN_RET, 0, 1),     /* sched_getaffinity */
	R(217, 1, 1, LEN_RET, 0, 1),     /* getdents64 */
	R(228, 1, 1, LEN_FIXED, 0, 16),  /* clock_gettime */
	R(229, 1, 1, LEN_FIXED, 0, 16),  /* clock_getres */
	R(230, 2, 0, LEN_FIXED, 0, 16),  /* clock_nanosleep */
	R(232, 1, 1, LEN_RET, 0, 12),    /* epoll_wait */
	R(233, 3, 0, LEN_FIXED, 0, 12),  /* epoll_ctl */
	R(247, 2, 1, LEN_FIXED, 0, 128), /* waitid */
	R(262, 2, 1, LEN_FIXED, 0, 144), /* newfstatat */
	R(267, 2, 1, LEN_RET, 0, 1),     /* readlinkat */
	R(270, 1, 1, LEN_BITS, 0, 0),    /* pselect6 */
	R(270, 2, 1, LEN_BITS, 0, 0),
	R(270, 3, 1, LEN_BITS, 0, 0),
	R(271, 0, 1, LEN_ITEMS, 1, 8),   /* ppoll */
	R(281, 1, 1, LEN_RET, 0, 12),    /* epoll_pwait */
	R(288, 1, 1, LEN_VALUE, 0, 2),   /* accept4 */
	R(293, 0, 1, LEN_FIXED, 0, 8),   /* pipe2 */
	R(295, 1, 1, LEN_IOVEC, 0, 2),   /* preadv */
	R(296, 1, 0, LEN_IOVEC, 0, 2),   /* pwritev */
	R(299, 1, 1, LEN_MSGS, 0, 0),    /* recvmmsg */
	R(302, 2, 0, LEN_FIXED, 0, 16),  /* prlimit64 */
	R(302, 3, 1, LEN_FIXED, 0, 16),
	R(307, 1, 0, LEN_MSGS, 0, 0),    /* sendmmsg */
	R(318, 0, 1, LEN_RET, 0, 1),     /* getrandom */
	R(327, 1, 1, LEN_IOVEC, 0, 2),   /* preadv2 */
	R(328, 1, 0, LEN_IOVEC, 0, 2),   /* pwritev2 */
	R(332, 4, 1, LEN_FIXED, 0, 256), /* statx */
	R(441, 1, 1, LEN_RET, 0, 12),    /* epoll_pwait2 */
};
#undef R

#define IOVECS_MAX 1024
#define IOVECS_BATCH 32

/*
 * Other threads may unmap what a pointer points to, and a pointer may be wrong to begin with: the kernel does the
 * copy, so that a bad address is an answer and not a fault. Where that call is not allowed, trust the pointer.
 */
bool guest_read(uint64_t addr, void *buf, size_t len)
{
	struct iovec to = { .iov_base = buf, .iov_len = len };
	struct iovec from = { .iov_base = (void *)(uintptr_t)(addr + own.guest_base), .iov_len = len };
	ssize_t n;

	if (!addr || addr > WORD_ADDR_MASK)
		return false;
	n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy(buf, from.iov_base, len);
		return true;
	}
	return n == (ssize_t)len;
}

bool guest_read_string(uint64_t addr, char *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		/* Up to the end of the page: what follows need not be mapped. */
		size_t n = MIN(len - done, 4096 - ((addr + done) & 4095));

		if (!guest_read(addr + done, buf + done, n))
			return false;
		if (memchr(buf + done, 0, n))
			return true;
		done += n;
	}
	return false;
}

static void put_buffer(struct ring *r, bool written, uint64_t addr, uint64_t len)
{
	if (addr && len && addr <= WORD_ADDR_MASK)
		ring_put(r, W_BUFFER, written, (uint64_t[]){ addr, len }, 2);
}

static void put_iovecs(struct ring *r, bool written, uint64_t at, uint64_t n, uint64_t bytes)
{
	struct iovec v[IOVECS_BATCH];

	for (uint64_t i = 0; i < MIN(n, (uint64_t)IOVECS_MAX) && bytes; i += IOVECS_BATCH) {
		uint64_t k = MIN(n - i, (uint64_t)IOVECS_BATCH);

		if (!guest_read(at + i * sizeof(v[0]), v, k * sizeof(v[0])))
			return;
		for (uint64_t j = 0; j < k && bytes; j++) {
			uint64_t len = MIN(v[j].iov_len, bytes);

			put_buffer(r, written, (uintptr_t)v[j].iov_base, len);
			bytes -= len;
		}
	}
}

static void put_message(struct ring *r, bool written, const struct msghdr *m, uint64_t bytes)
{
	put_buffer(r, written, (uintptr_t)m->msg_name, m->msg_namelen);
	put_buffer(r, written, (uintptr_t)m->msg_control, m->msg_controllen);
	put_iovecs(r, written, (uintptr_t)m->msg_iov, m->msg_iovlen, bytes);
}

static void apply(struct ring *r, const struct buffer_rule *u, const uint64_t *a, uint64_t ret)
{
	uint64_t addr = a[u->arg];
	uint32_t value;

	switch ((enum len_kind)u->kind) {
	case LEN_RET:
		put_buffer(r, u->written, addr, ret * u->x);
		break;
	case LEN_FIXED:
		put_buffer(r, u->written, addr, u->x);
		break;
	case LEN_ARG:
		put_buffer(r, u->written, addr, a[u->x] & 0xffffffffU);
		break;
	case LEN_ITEMS:
		put_buffer(r, u->written, addr, (a[u->other] & 0xffffffffU) * u->x);
		break;
	case LEN_BITS:
		put_buffer(r, u->written, addr, ((a[u->other] & 0xffffffffU) + 63) / 64 * 8);
		break;
	case LEN_VALUE:
		if (addr && guest_read(a[u->x], &value, sizeof(value))) {
			put_buffer(r, u->written, addr, value);
			put_buffer(r, true, a[u->x], sizeof(value));
		}
		break;
	case LEN_PAGES:
		put_buffer(r, u->written, addr, (a[u->x] + 4095) / 4096);
		break;
	case LEN_IOVEC:
		put_iovecs(r, u->written, addr, a[u->x], ret);
		break;
	case LEN_MSG: {
		struct msghdr m;

		if (guest_read(addr, &m, sizeof(m)))
			put_message(r, u->written, &m, ret);
		break;
	}
	case LEN_MSGS:
		for (uint64_t i = 0; i < MIN(ret, (uint64_t)IOVECS_MAX); i++) {
			struct mmsghdr m;

			if (guest_read(addr + i * sizeof(m), &m, sizeof(m)))
				put_message(r, u->written, &m.msg_hdr, m.msg_len);
		}
		break;
	}
}

static void put_buffers(struct ring *r, uint64_t nr, const uint64_t *a, int64_t ret)
{
	size_t lo = 0, hi = ARRAY_SIZE(rules);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (rules[mid].nr < nr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < ARRAY_SIZE(rules) && rules[lo].nr == nr; lo++)
		apply(r, &rules[lo], a, (uint64_t)ret);
}

/* ---- files ---- */

/* Which argument is the descriptor, and where the file offset is: an argument, the descriptor's own, or nowhere. */
enum { OFF_NONE = -1, OFF_FD = -2 };

static bool file_rule(uint64_t nr, unsigned *ret_fd, int *ret_off)
{
	*ret_fd = 0;
	*ret_off = OFF_NONE;
	switch (nr) {
	case 9: /* mmap */
		*ret_fd = 4;
		*ret_off = 5;
		return true;
	case 17: case 18: case 295: case 296: case 327: case 328: /* pread64, pwrite64, and with vectors */
		*ret_off = 3;
		return true;
	case 0: case 1: case 19: case 20: /* read, write, readv, writev */
		*ret_off = OFF_FD;
		return true;
	case 40: /* sendfile: the file it reads */
		*ret_fd = 1;
		return true;
	case 44: case 45: case 46: case 47: case 77: case 221: case 285: /* sockets; ftruncate, fadvise64, fallocate */
		return true;
	default:
		return false;
	}
}

static enum file_kind kind_of(int fd, const struct stat *st)
{
	struct statfs fs;

	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		/* Files of memory have no device behind them: a first test that costs no call. */
		if (st->st_dev >> 8 == 0 && fstatfs(fd, &fs) == 0 && fs.f_type == 0x01021994)
			return FILE_SHM;
		return FILE_REGULAR;
	case S_IFIFO:
		return FILE_PIPE;
	case S_IFSOCK:
		return FILE_SOCKET;
	case S_IFCHR:
	case S_IFBLK:
		return FILE_DEVICE;
	default:
		return FILE_OTHER;
	}
}

static void put_file(struct ring *r, uint64_t nr, const uint64_t *a, int64_t ret)
{
	uint64_t off = ~0ULL;
	enum file_kind kind;
	struct stat st;
	unsigned arg;
	int rule, fd;

	if (!file_rule(nr, &arg, &rule))
		return;
	fd = (int)a[arg];
	if (fd < 0 || (nr == 9 && (a[3] & 0x20)) || fstat(fd, &st) < 0)
		return;
	kind = kind_of(fd, &st);
	if (rule >= 0)
		off = a[rule];
	else if (rule == OFF_FD && S_ISREG(st.st_mode)) {
		off_t at = lseek(fd, 0, SEEK_CUR);

		off = at < ret ? ~0ULL : (uint64_t)(at - ret);
	}
	ring_put(r, W_FILE, 0, (uint64_t[]){ st.st_dev, st.st_ino, (uint64_t)st.st_size, off, kind }, 5);
}

/* System V segments have no descriptor; the identifier stands for the inode. */
static void put_segment(struct ring *r, const uint64_t *a)
{
	struct shmid_ds ds;

	if (shmctl((int)a[0], IPC_STAT, &ds) == 0)
		ring_put(r, W_FILE, 0, (uint64_t[]){ ~0ULL, a[0], ds.shm_segsz, 0, FILE_SHM }, 5);
}

void sysbuf_put(struct ring *r, uint64_t nr, const uint64_t *a, int64_t ret)
{
	if (ret < 0 && ret > -4096)
		return;
	if (nr == 30)
		put_segment(r, a);
	else
		put_file(r, nr, a, ret);
	put_buffers(r, nr, a, ret);
}
