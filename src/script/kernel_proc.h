/*
 * What the kernel underneath says about a process's memory: areas from /proc/PID/smaps, pages from /proc/PID/pagemap.
 * Nothing is asked of the process itself, so looking does not change what is looked at. Who looks must be allowed to:
 * its parent, with the same user, or root.
 */
#ifndef QUIRE_SCRIPT_KERNEL_PROC_H
#define QUIRE_SCRIPT_KERNEL_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* VmFlags of smaps that matter to somebody here. */
enum kproc_flag {
	KPROC_GROWSDOWN = 1U << 0, /* gd */
	KPROC_LOCKED = 1U << 1,    /* lo */
	KPROC_SEQ = 1U << 2,       /* sr */
	KPROC_RAND = 1U << 3,      /* rr */
	KPROC_DONTCOPY = 1U << 4,  /* dc */
	KPROC_ACCOUNT = 1U << 5,   /* ac */
	KPROC_NORESERVE = 1U << 6, /* nr */
	KPROC_WIPEONFORK = 1U << 7, /* wf */
	KPROC_DONTDUMP = 1U << 8,  /* dd */
	KPROC_HUGEPAGE = 1U << 9,  /* hg */
	KPROC_NOHUGEPAGE = 1U << 10, /* nh */
	KPROC_MAYREAD = 1U << 11,  /* mr */
	KPROC_MAYWRITE = 1U << 12, /* mw */
	KPROC_MAYEXEC = 1U << 13,  /* me */
	KPROC_DONTEXPAND = 1U << 14, /* de */
	KPROC_LOCKONFAULT = 1U << 15, /* lf */
};

struct kproc_area {
	uint64_t start, end, offset, inode;
	char perms[5]; /* "rw-p" */
	char name[16]; /* "[heap]", "[stack]", "[vdso]", cut; empty: none, or a file's */
	unsigned flags;
	bool thp_eligible;
	/* bytes */
	uint64_t rss, pss, shared, private_, referenced, anonymous, lazyfree, anon_huge, swap, locked;
};

struct kproc_areas {
	struct kproc_area *v;
	size_t nr, cap;
	char *text; /* the file, kept between reads */
	size_t text_cap;
};

/* All areas of pid in address order. 0 or negative errno. */
int kproc_read_areas(pid_t pid, struct kproc_areas *a);
void kproc_areas_done(struct kproc_areas *a);

/* One page, as far as the kernel tells. */
enum kproc_page {
	KPROC_PAGE_PRESENT = 1U << 0,
	KPROC_PAGE_SWAPPED = 1U << 1,
	KPROC_PAGE_FILE = 1U << 2, /* or shared anonymous memory */
	KPROC_PAGE_HUGE = 1U << 3, /* mapped by an entry of 2 MiB; only with `scan` */
	KPROC_PAGE_ZERO = 1U << 4, /* the zero page; only with `scan` */
};

struct kproc_pages {
	int fd;
	bool scan; /* ioctl PAGEMAP_SCAN works here (Linux 6.7): huge and zero pages are told apart */
};

int kproc_pages_open(pid_t pid, struct kproc_pages *p);
void kproc_pages_close(struct kproc_pages *p);
/* enum kproc_page of each page in [start, end). 0 or negative errno. */
int kproc_read_pages(const struct kproc_pages *p, uint64_t start, uint64_t end, uint8_t *ret);

/* A number of /proc/vmstat or of a file "name value" a line; -ENOENT when it isn't there. */
int kproc_vmstat(const char *const *names, size_t nr, int64_t *ret);
/* "VmData:" and the like of /proc/PID/status, in bytes. */
int kproc_status_bytes(pid_t pid, const char *key, uint64_t *ret);
/* The word in brackets of a sysfs choice file, or the whole first line. */
int kproc_setting(const char *path, char *buf, size_t len);

#endif
