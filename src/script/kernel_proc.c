/* Readers of /proc for the kernel side of fidelity. */
#include "script/kernel_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"

/* ---- whole files ---- */

static int read_whole(const char *path, char **buf, size_t *cap)
{
	size_t len = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		if (*cap - len < 4096) {
			size_t more = *cap ? *cap * 2 : 1U << 16;
			char *p = realloc(*buf, more);

			if (!p) {
				close(fd);
				return -ENOMEM;
			}
			*buf = p;
			*cap = more;
		}
		n = read(fd, *buf + len, *cap - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int err = -errno;

			close(fd);
			return err;
		}
		if (!n)
			break;
		len += (size_t)n;
	}
	close(fd);
	(*buf)[len] = '\0';
	return 0;
}

/* ---- areas ---- */

/* "VmFlags: rd wr mr mw me" */
static void parse_flags(const char *line, const char *end, struct kproc_area *a)
{
	for (const char *p = line; p + 2 < end; p++)
		for (unsigned i = 0; p[0] == ' ' && i < NR_SCRIPT_VMFLAGS; i++)
			if (p[1] == script_vmflag_names[i][0] && p[2] == script_vmflag_names[i][1])
				a->vmflags |= 1U << i;
}

/* "Rss:    12 kB" */
static void parse_field(const char *line, const char *end, struct kproc_area *a)
{
	for (unsigned i = 0; i < NR_SCRIPT_SMAPS; i++) {
		size_t n = strlen(script_smap_names[i]);

		if (!strncmp(line, script_smap_names[i], n) && line[n] == ':') {
			a->smap[i] = strtoull(line + n + 1, NULL, 10) * 1024;
			return;
		}
	}
	if (!strncmp(line, "VmFlags:", 8))
		parse_flags(line + 8, end, a);
}

static struct kproc_area *new_area(struct kproc_areas *a)
{
	if (a->nr == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		struct kproc_area *v = realloc(a->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		a->v = v;
		a->cap = cap;
	}
	memset(&a->v[a->nr], 0, sizeof(a->v[0]));
	return &a->v[a->nr++];
}

/* "7f..-7f.. rw-p 00000000 00:00 0    [heap]" into a new area; false: the line is a field. */
static bool parse_head(const char *line, struct kproc_area *a)
{
	unsigned long long start, end, offset, inode;
	char perms[5];
	int used = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*x:%*x %llu %n", &start, &end, perms, &offset, &inode, &used) != 5)
		return false;
	*a = (struct kproc_area){ .start = start, .end = end, .offset = offset, .inode = inode };
	memcpy(a->perms, perms, sizeof(a->perms));
	if (line[used] == '[') {
		size_t n = strcspn(line + used, "\n");

		n = MIN(n, sizeof(a->name) - 1);
		memcpy(a->name, line + used, n);
	}
	return true;
}

int kproc_read_areas(pid_t pid, struct kproc_areas *a)
{
	struct kproc_area *cur = NULL, head;
	char path[48];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	err = read_whole(path, &a->text, &a->text_cap);
	if (err)
		return err;
	a->nr = 0;
	for (char *line = a->text; *line;) {
		char *end = strchr(line, '\n');

		if (!end)
			end = line + strlen(line);
		/* Fields begin with a capital letter, areas with a digit or a small one. */
		if (*line < 'A' || *line > 'Z') {
			if (!parse_head(line, &head))
				return -EPROTO;
			cur = new_area(a);
			if (!cur)
				return -ENOMEM;
			*cur = head;
		} else if (cur) {
			parse_field(line, end, cur);
		}
		line = *end ? end + 1 : end;
	}
	return 0;
}

void kproc_areas_done(struct kproc_areas *a)
{
	free(a->v);
	free(a->text);
	memset(a, 0, sizeof(*a));
}

/* ---- pages ---- */

/* The ABI of PAGEMAP_SCAN (Linux 6.7), for headers that are older. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
#define SCAN_HUGE (1U << 6)

/* Marks the pages that huge entries map. */
static int scan_huge(int fd, uint64_t start, uint64_t end, uint8_t *ret)
{
	struct scan_region regions[128];
	struct scan_arg arg = {
		.size = sizeof(arg),
		.vec = (uintptr_t)regions,
		.vec_len = ARRAY_SIZE(regions),
		.category_mask = SCAN_HUGE,
		.return_mask = SCAN_HUGE,
	};

	for (uint64_t at = start; at < end; at = arg.walk_end) {
		int n;

		arg.start = at;
		arg.end = end;
		n = ioctl(fd, SCAN_IOCTL, &arg);
		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++)
			for (uint64_t va = regions[i].start; va < regions[i].end; va += PAGE_SIZE)
				ret[(va - start) >> PAGE_SHIFT] |= SPAGE_HUGE;
		if (arg.walk_end <= at)
			break;
	}
	return 0;
}

int kproc_pages_open(pid_t pid, struct kproc_pages *p)
{
	struct scan_region r;
	struct scan_arg arg = { .size = sizeof(arg), .start = 0, .end = PAGE_SIZE, .vec = (uintptr_t)&r, .vec_len = 1,
				.category_mask = SCAN_HUGE, .return_mask = SCAN_HUGE };
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	p->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (p->fd < 0)
		return -errno;
	p->scan = ioctl(p->fd, SCAN_IOCTL, &arg) >= 0;
	return 0;
}

void kproc_pages_close(struct kproc_pages *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

int kproc_read_pages(const struct kproc_pages *p, uint64_t start, uint64_t end, uint8_t *ret)
{
	static const struct {
		unsigned bit;
		uint8_t is;
	} bits[] = { { 63, SPAGE_PRESENT }, { 62, SPAGE_SWAP }, { 61, SPAGE_FILE }, { 56, SPAGE_EXCL } };
	uint64_t raw[1024];

	for (uint64_t at = start; at < end;) {
		size_t want = (size_t)MIN((end - at) >> PAGE_SHIFT, (uint64_t)ARRAY_SIZE(raw));
		ssize_t got = pread(p->fd, raw, want * sizeof(raw[0]), (off_t)((at >> PAGE_SHIFT) * sizeof(raw[0])));

		if (got <= 0)
			return got ? -errno : -EIO;
		for (size_t i = 0; i < (size_t)got / sizeof(raw[0]); i++, at += PAGE_SIZE)
			for (size_t b = 0; b < ARRAY_SIZE(bits); b++)
				if ((raw[i] >> bits[b].bit) & 1)
					ret[(at - start) >> PAGE_SHIFT] |= bits[b].is;
	}
	return p->scan ? scan_huge(p->fd, start, end, ret) : 0;
}

/* ---- counters and settings ---- */

int kproc_vmstat(const char *const *names, size_t nr, int64_t *ret)
{
	char *text = NULL;
	size_t cap = 0;
	int err = read_whole("/proc/vmstat", &text, &cap);

	for (size_t i = 0; !err && i < nr; i++) {
		size_t n = strlen(names[i]);
		const char *p = text;

		while (p && (strncmp(p, names[i], n) || p[n] != ' ')) {
			p = strchr(p, '\n');
			p = p ? p + 1 : NULL;
		}
		if (p)
			ret[i] = strtoll(p + n + 1, NULL, 10);
		else
			err = -ENOENT;
	}
	free(text);
	return err;
}

int kproc_faults(pid_t pid, uint64_t *ret_minor, uint64_t *ret_major)
{
	char path[48], *text = NULL;
	unsigned long long minor, major;
	const char *p;
	size_t cap = 0;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	err = read_whole(path, &text, &cap);
	p = err ? NULL : strrchr(text, ')'); /* fields 10 and 12; the name, in brackets, is field 2 */
	if (!err && (!p || sscanf(p + 1, " %*s %*s %*s %*s %*s %*s %*s %llu %*s %llu", &minor, &major) != 2))
		err = -EPROTO;
	free(text);
	if (err)
		return err;
	*ret_minor = minor;
	*ret_major = major;
	return 0;
}

int kproc_status_bytes(pid_t pid, const char *key, uint64_t *ret)
{
	char path[48], *text = NULL;
	const char *p;
	size_t cap = 0;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	err = read_whole(path, &text, &cap);
	p = err ? NULL : strstr(text, key);
	if (p)
		*ret = strtoull(p + strlen(key), NULL, 10) * 1024;
	else if (!err)
		err = -ENOENT;
	free(text);
	return err;
}

int kproc_setting(const char *path, char *buf, size_t len)
{
	char *text = NULL, *p, *end;
	size_t cap = 0;
	int err = read_whole(path, &text, &cap);

	if (!err) {
		p = strchr(text, '[');
		end = p ? strchr(p, ']') : NULL;
		if (end) {
			p++;
		} else {
			p = text;
			end = text + strcspn(text, "\n");
		}
		*end = '\0';
		snprintf(buf, len, "%s", p);
	}
	free(text);
	return err;
}
