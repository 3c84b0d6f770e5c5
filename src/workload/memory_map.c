/* Reading /proc/iomem and /proc/zoneinfo: see memory_map.h. */
#include "workload/memory_map.h"

#include "mm/alloc_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16U
#define REGIONS_MAX 65536U
#define ZONES_MAX (MEMORY_MAP_MAX_NODES * NR_ZONES * 2)

struct reader {
	const char *file;
	unsigned line;
	char *text, *next; /* of the file; the rest of it */
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct reader *r, int rc, const char *fmt, ...)
{
	va_list ap;
	int n = r->line ? snprintf(r->err, r->errlen, "%s:%u: ", r->file, r->line) : snprintf(r->err, r->errlen, "%s: ", r->file);

	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < r->errlen)
		vsnprintf(r->err + n, r->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	/* Lines and names are anybody's: nothing of them ends the line or talks to the terminal. */
	for (char *c = r->err; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	return rc;
}

/* All of a file whose size nobody knows beforehand. */
static int slurp(struct reader *r)
{
	FILE *f = fopen(r->file, "re");
	size_t cap = 1 << 16, n = 0, got;
	char *t;

	if (!f)
		return refuse(r, -errno, "%s", strerror(errno));
	r->text = malloc(cap + 1);
	while (r->text && (got = fread(r->text + n, 1, cap - n, f)) != 0) {
		n += got;
		if (n < cap)
			continue;
		t = cap < MEMORY_MAP_MAX_TEXT ? realloc(r->text, 2 * cap + 1) : NULL;
		if (!t) {
			fclose(f);
			return refuse(r, cap < MEMORY_MAP_MAX_TEXT ? -ENOMEM : -EINVAL, "longer than %u MiB", MEMORY_MAP_MAX_TEXT >> 20);
		}
		r->text = t;
		cap *= 2;
	}
	if (!r->text || ferror(f)) {
		int e = r->text ? EIO : ENOMEM;

		fclose(f);
		return refuse(r, -e, "%s", strerror(e));
	}
	fclose(f);
	r->text[n] = '\0';
	r->next = r->text;
	if (memchr(r->text, '\0', n))
		return refuse(r, -EINVAL, "holds a zero byte: not the text that Linux prints");
	return 0;
}

static char *next_line(struct reader *r)
{
	char *at = r->next, *end = at ? strchr(at, '\n') : NULL;

	if (!at || !*at)
		return NULL;
	r->next = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	r->line++;
	return at;
}

/* ---- lists that grow ---- */

/* For two ranges, as a new one in the midst of another takes, and as many as a boot then reserves: one a node. */
static int make_room(const struct reader *r, struct memblock_list *l)
{
	struct memblock_region *p;
	unsigned max = l->max ? 2 * l->max : 4 * MEMORY_MAP_MAX_NODES;

	if (l->nr + 2 + MEMORY_MAP_MAX_NODES <= l->max)
		return 0;
	if (max > REGIONS_MAX)
		return refuse(r, -EINVAL, "more than %u ranges", REGIONS_MAX / 2);
	p = realloc(l->r, max * sizeof(*p));
	if (!p)
		return refuse(r, -ENOMEM, "out of memory");
	l->r = p;
	l->max = max;
	return 0;
}

static int add(const struct reader *r, struct memblock_list *l, uint64_t start, uint64_t end, int nid)
{
	int rc = make_room(r, l);

	return rc || start >= end ? rc : memblock_add(l, start, end, nid);
}

/* ---- iomem ---- */

struct iomem_line {
	unsigned depth; /* two blanks each */
	uint64_t start, end; /* bytes, both inside */
	const char *name;
};

static bool hex(const char **at, uint64_t *ret)
{
	const char *p = *at;
	unsigned digits = 0;

	for (*ret = 0; digits < 17; p++, digits++) {
		int d = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;

		if (d < 0)
			break;
		*ret = *ret << 4 | (uint64_t)d;
	}
	*at = p;
	return digits > 0 && digits <= 16;
}

static int iomem_parse(const struct reader *r, const char *line, struct iomem_line *ret)
{
	const char *p = line + strspn(line, " ");
	unsigned blanks = (unsigned)(p - line);

	ret->depth = blanks / 2;
	if (blanks % 2 || ret->depth >= DEPTH_MAX)
		return refuse(r, -EINVAL, "%u blanks before the range: two for each level, at most %u levels", blanks, DEPTH_MAX);
	if (!hex(&p, &ret->start) || *p++ != '-' || !hex(&p, &ret->end) || strncmp(p, " : ", 3))
		return refuse(r, -EINVAL, "'%.40s': lines of /proc/iomem are 'START-END : NAME', hexadecimal", line);
	ret->name = p + 3;
	if (ret->end < ret->start)
		return refuse(r, -EINVAL, "the range %" PRIx64 "-%" PRIx64 " ends before it starts", ret->start, ret->end);
	return 0;
}

static bool is_memory(const char *name)
{
	return !strcmp(name, "System RAM") || !strncmp(name, "System RAM (", 12);
}

/* Frames of a range, whole ones only, or all that it touches. */
static void frames_of(const struct iomem_line *l, bool whole, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = whole ? (l->start + PAGE_SIZE - 1) >> PAGE_SHIFT : l->start >> PAGE_SHIFT;
	*ret_end = whole ? (l->end + 1) >> PAGE_SHIFT : (l->end >> PAGE_SHIFT) + 1;
}

static int iomem_take(const struct reader *r, const struct iomem_line *l, bool inside, struct memory_map *m)
{
	uint64_t s, e;
	int rc;

	if (!inside && !is_memory(l->name))
		return 0;
	if (l->end >= MEMORY_MAP_MAX_BYTES)
		return refuse(r, -EINVAL, "memory up to %" PRIx64 ": at most to %llx, 64 TiB", l->end, MEMORY_MAP_MAX_BYTES - 1);
	frames_of(l, !inside, &s, &e);
	rc = add(r, inside ? &m->mb.reserved : &m->mb.memory, s, e, inside ? NID_NONE : 0);
	return rc;
}

/* Zeros instead of addresses: what a reader gets who may not see them. */
static int iomem_hidden(struct reader *r)
{
	r->line = 0;
	return refuse(r, -EACCES, "its addresses are hidden, all are 0: only root may read them (sudo cat /proc/iomem >FILE)");
}

static int iomem_read(struct reader *r, struct memory_map *m)
{
	struct iomem_line at[DEPTH_MAX];
	bool ram[DEPTH_MAX] = { false }, any = false;
	unsigned depth = 0;
	char *line;
	int rc = slurp(r);

	while (!rc && (line = next_line(r))) {
		struct iomem_line l = { 0 };
		const struct iomem_line *parent;

		rc = iomem_parse(r, line, &l);
		if (rc)
			break;
		if (l.depth > depth)
			return refuse(r, -EINVAL, "nested %u levels deep under %u", l.depth, depth);
		parent = l.depth ? &at[l.depth - 1] : NULL;
		any |= l.end != 0;
		if (any && parent && (l.start < parent->start || l.end > parent->end))
			return refuse(r, -EINVAL, "the range %" PRIx64 "-%" PRIx64 " is not within the one that it is nested in", l.start, l.end);
		rc = any ? iomem_take(r, &l, parent && ram[l.depth - 1], m) : 0;
		at[l.depth] = l;
		ram[l.depth] = is_memory(l.name) || (parent && ram[l.depth - 1]);
		depth = l.depth + 1 < DEPTH_MAX ? l.depth + 1 : l.depth;
	}
	if (rc)
		return rc;
	if (!any && r->line)
		return iomem_hidden(r);
	if (!m->mb.memory.nr)
		return refuse(r, -EINVAL, "has no line 'System RAM'");
	return make_room(r, &m->mb.reserved);
}

/* ---- zoneinfo ---- */

static bool number_after(const char *line, const char *word, uint64_t *ret)
{
	const char *p = line + strspn(line, " ");
	size_t n = strlen(word);
	char *end;

	if (strncmp(p, word, n) || (p[n] != ' ' && p[n] != ':'))
		return false;
	p += n + strspn(p + n, ": ");
	if (*p < '0' || *p > '9')
		return false;
	errno = 0;
	*ret = strtoull(p, &end, 10);
	return !errno && !end[strspn(end, " ")];
}

static int zone_begin(const struct reader *r, const char *line, struct memory_map *m)
{
	struct memory_map_zone z = { 0 }, *p;
	unsigned nid;
	int used = 0;

	if (sscanf(line, "Node %u, zone %15s%n", &nid, z.name, &used) != 2 || line[used] || nid >= MEMORY_MAP_MAX_NODES)
		return refuse(r, -EINVAL, "'%.40s': 'Node N, zone NAME', N from 0 to %u", line, MEMORY_MAP_MAX_NODES - 1);
	if (m->nr_zones == ZONES_MAX)
		return refuse(r, -EINVAL, "more than %u zones", ZONES_MAX);
	p = realloc(m->zone, (m->nr_zones + 1) * sizeof(*p));
	if (!p)
		return refuse(r, -ENOMEM, "out of memory");
	m->zone = p;
	z.nid = (int)nid;
	m->zone[m->nr_zones++] = z;
	m->nr_nodes = MAX(m->nr_nodes, nid + 1);
	return 0;
}

static int zone_check(const struct reader *r, const struct memory_map_zone *z)
{
	const uint64_t most = MEMORY_MAP_MAX_BYTES >> PAGE_SHIFT;

	if (z->start > most || z->spanned > most - z->start || z->present > z->spanned || z->managed > z->present)
		return refuse(r, -EINVAL, "node %d, zone %s: %" PRIu64 " managed, %" PRIu64 " present, %" PRIu64 " spanned from %" PRIu64
					  ": each at most the next, and within 64 TiB",
			      z->nid, z->name, z->managed, z->present, z->spanned, z->start);
	return 0;
}

static int zoneinfo_read(struct reader *r, struct memory_map *m)
{
	unsigned keep = 0;
	char *line;
	int rc = slurp(r);

	while (!rc && (line = next_line(r))) {
		struct memory_map_zone *z = m->nr_zones ? &m->zone[m->nr_zones - 1] : NULL;

		if (!strncmp(line, "Node ", 5)) {
			rc = zone_begin(r, line, m);
			continue;
		}
		if (!z)
			return refuse(r, -EINVAL, "'%.40s' before the first 'Node N, zone NAME'", line);
		(void)(number_after(line, "spanned", &z->spanned) || number_after(line, "present", &z->present) ||
		       number_after(line, "managed", &z->managed) || number_after(line, "start_pfn", &z->start));
	}
	for (unsigned i = 0; i < m->nr_zones && !rc; i++) {
		rc = zone_check(r, &m->zone[i]);
		if (m->zone[i].spanned)
			m->zone[keep++] = m->zone[i];
	}
	m->nr_zones = keep;
	if (!rc && !keep)
		return refuse(r, -EINVAL, "has no zone with frames");
	return rc;
}

/* ---- nodes ---- */

/* The zone whose span holds frame p and how far that says so; two of different nodes are no answer. */
static int zone_at(const struct reader *r, const struct memory_map *m, uint64_t p, int *ret_nid, uint64_t *ret_until)
{
	*ret_nid = NID_NONE;
	for (unsigned i = 0; i < m->nr_zones; i++) {
		const struct memory_map_zone *z = &m->zone[i];

		if (z->start > p)
			*ret_until = MIN(*ret_until, z->start);
		if (z->start > p || z->start + z->spanned <= p)
			continue;
		if (*ret_nid != NID_NONE && *ret_nid != z->nid)
			return refuse(r, -EINVAL, "frame %" PRIu64 " lies in zones of nodes %d and %d: which has it can't be told", p, *ret_nid,
				      z->nid);
		*ret_nid = z->nid;
		*ret_until = MIN(*ret_until, z->start + z->spanned);
	}
	return 0;
}

/* Memory by node; frames that are in no zone (frame 0, say) go with those before them, or the first ones with node 0. */
static int by_node(const struct reader *r, struct memory_map *m)
{
	struct memblock_list flat = m->mb.memory, *to = &m->mb.memory;
	int rc = 0, last = 0;

	*to = (struct memblock_list){ 0 };
	for (unsigned i = 0; i < flat.nr && !rc; i++) {
		uint64_t p = flat.r[i].start, until;

		for (; p < flat.r[i].end && !rc; p = until) {
			int nid;

			until = flat.r[i].end;
			rc = zone_at(r, m, p, &nid, &until);
			last = nid == NID_NONE ? last : nid;
			if (!rc)
				rc = add(r, to, p, until, last);
		}
	}
	free(flat.r);
	for (unsigned i = 0; i < m->nr_zones; i++) {
		const struct memory_map_zone *z = &m->zone[i];

		if (strcmp(z->name, "Movable"))
			continue;
		m->movable[z->nid] = ALIGN_UP(z->start, MAX_ORDER_FRAMES);
		m->mb.movable_start = m->movable;
	}
	return rc;
}

int memory_map_read(const char *iomem, const char *zoneinfo, struct memory_map *ret, char *err, size_t errlen)
{
	struct reader r = { .file = iomem, .err = err, .errlen = errlen }, zr = { .file = zoneinfo, .err = err, .errlen = errlen };
	int rc;

	*ret = (struct memory_map){ .nr_nodes = 1 };
	ret->mb.dma32_end = 1ULL << (32 - PAGE_SHIFT);
	rc = iomem_read(&r, ret);
	if (!rc && zoneinfo)
		rc = zoneinfo_read(&zr, ret);
	if (!rc) {
		zr.line = 0;
		rc = zoneinfo ? by_node(&zr, ret) : 0;
	}
	if (!rc && memblock_validate(&ret->mb.memory, true)) {
		zr.line = 0;
		rc = refuse(&zr, -EINVAL, "two nodes share a block of 4 MiB");
	}
	free(r.text);
	free(zr.text);
	return rc;
}

void memory_map_done(struct memory_map *m)
{
	free(m->mb.memory.r);
	free(m->mb.reserved.r);
	free(m->zone);
	*m = (struct memory_map){ 0 };
}

uint64_t memory_map_frames(const struct memory_map *m, int nid, uint64_t lo, uint64_t hi, uint64_t *ret_reserved)
{
	const struct memblock *mb = &m->mb;
	struct memblock_iter it = { 0 };
	uint64_t all = 0, idle = 0, s, e;

	for (unsigned i = 0; i < mb->memory.nr; i++) {
		s = MAX(mb->memory.r[i].start, lo);
		e = MIN(mb->memory.r[i].end, hi);
		all += s < e && (nid == NID_NONE || mb->memory.r[i].nid == nid) ? e - s : 0;
	}
	while (lo < hi && memblock_next_free(mb, &it, nid, lo, hi, &s, &e)) {
		idle += e - s;
		lo = e;
	}
	*ret_reserved = all - idle;
	return all;
}
