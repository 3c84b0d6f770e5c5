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

#include "script/observe.h"

struct kproc_area {
	uint64_t start, end, offset, inode;
	char perms[5]; /* "rw-p" */
	char name[16]; /* "[heap]", "[stack]", "[vdso]", cut; empty: none, or a file's */
	uint32_t vmflags; /* bit 1 << SVF_* */
	uint64_t smap[NR_SCRIPT_SMAPS];
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

struct kproc_pages {
	int fd;
	bool scan; /* ioctl PAGEMAP_SCAN works here (Linux 6.7): huge pages are told apart */
};

int kproc_pages_open(pid_t pid, struct kproc_pages *p);
void kproc_pages_close(struct kproc_pages *p);
/* SPAGE_PRESENT, SWAP, FILE, EXCL and, with `scan`, HUGE of each page in [start, end), ored into ret. 0 or negative errno. */
int kproc_read_pages(const struct kproc_pages *p, uint64_t start, uint64_t end, uint8_t *ret);

/* A number of /proc/vmstat or of a file "name value" a line; -ENOENT when it isn't there. */
int kproc_vmstat(const char *const *names, size_t nr, int64_t *ret);
/* Faults of the process so far that did not need, and that did need, a device: the same in /proc/vmstat are everybody's. */
int kproc_faults(pid_t pid, uint64_t *ret_minor, uint64_t *ret_major);
/* "VmData:" and the like of /proc/PID/status, in bytes. */
int kproc_status_bytes(pid_t pid, const char *key, uint64_t *ret);
/* The word in brackets of a sysfs choice file, or the whole first line. */
int kproc_setting(const char *path, char *buf, size_t len);

#endif
