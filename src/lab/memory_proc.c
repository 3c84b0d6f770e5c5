/* Printing the page allocator's state as Linux does. Free memory whose descriptors are still deferred counts as what it will be. */
#include "lab/memory_proc.h"

#include "mm/alloc_int.h"
#include "mm/fragment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define NR_SHOWN_TYPES 5 /* Linux's, the last two always empty here */

const char *const memory_proc_names[NR_MEMORY_PROCS] = { "buddyinfo", "pagetypeinfo", "zoneinfo", "unusable_index", "extfrag_index" };
static const char *const zone_names[NR_ZONES] = { "DMA32", "Normal", "Movable", "Device" };
static const char *const type_names[NR_SHOWN_TYPES] = { "Unmovable", "Movable", "Reclaimable", "HighAtomic", "Isolate" };

int memory_proc_parse(const char *names, unsigned *ret_mask, char *err, size_t errlen)
{
	unsigned mask = 0;

	for (const char *s = names;; s++) {
		size_t n = strcspn(s, ","), i = 0;

		while (i < NR_MEMORY_PROCS && (strlen(memory_proc_names[i]) != n || memcmp(memory_proc_names[i], s, n) != 0))
			i++;
		if (i == NR_MEMORY_PROCS) {
			snprintf(err, errlen, "'%.*s': there are buddyinfo, pagetypeinfo, zoneinfo, unusable_index and extfrag_index",
				 (int)n, s);
			return -EINVAL;
		}
		mask |= 1U << i;
		s += n;
		if (!*s)
			break;
	}
	*ret_mask = mask;
	return 0;
}

static void place(FILE *f, const struct zone *z)
{
	fprintf(f, "Node %d, zone %8s ", z->nid, zone_names[z->type]);
}

static void buddyinfo(FILE *f, const struct zone *z)
{
	struct free_blocks b;

	free_blocks_count(z, NR_MIGRATE_TYPES, &b);
	place(f, z);
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		fprintf(f, "%6" PRIu64 " ", b.nr[o]);
	fputc('\n', f);
}

static void index_line(FILE *f, const struct zone *z, bool unusable)
{
	struct free_blocks b;

	free_blocks_count(z, NR_MIGRATE_TYPES, &b);
	place(f, z);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		int v = unusable ? unusable_index(&b, o) : extfrag_index(&b, o);

		fprintf(f, unusable ? "%d.%03d " : "%2d.%03d ", v / 1000, v % 1000);
	}
	fputc('\n', f);
}

static void free_by_type(FILE *f, const struct zone *z)
{
	for (unsigned mt = 0; mt < NR_SHOWN_TYPES; mt++) {
		struct free_blocks b = { 0 };

		if (mt < NR_MIGRATE_TYPES)
			free_blocks_count(z, (enum migrate_type)mt, &b);
		fprintf(f, "Node %4d, zone %8s, type %12s ", z->nid, zone_names[z->type], type_names[mt]);
		for (unsigned o = 0; o <= MAX_ORDER; o++)
			fprintf(f, "%6" PRIu64 " ", b.nr[o]);
		fputc('\n', f);
	}
}

/* What nobody has written yet, and what boot took, is movable, as Linux's boot leaves it. */
static void blocks_by_type(FILE *f, const struct zone *z)
{
	uint64_t n[NR_SHOWN_TYPES] = { 0 };

	for (uint64_t p = z->start_pfn; p < z->end_pfn; p += PAGEBLOCK_FRAMES) {
		bool written = p + PAGEBLOCK_FRAMES > z->first_pfn && p < z->deferred_pfn;

		n[written ? pageblock_type(z, p) : MIGRATE_MOVABLE]++;
	}
	place(f, z);
	for (unsigned mt = 0; mt < NR_SHOWN_TYPES; mt++)
		fprintf(f, "%12" PRIu64 " ", n[mt]);
	fputc('\n', f);
}

static void pagesets(FILE *f, const struct quire *q, const struct zone *z)
{
	fputs("  pagesets\n", f);
	for (unsigned cpu = 0; cpu < q->m->nr_cpus; cpu++) {
		const struct pcp_list *p = &q->percpu[cpu]->pcp[(unsigned)z->nid * NR_ZONES + z->type];

		fprintf(f, "    cpu: %u\n              count:    %" PRIu32 "\n              high:     %" PRIu32
			   "\n              batch:    %" PRIu32 "\n              high_min: %" PRIu32 "\n              high_max: %" PRIu32 "\n",
			cpu, p->total, p->high, p->batch, p->high_min, p->high_max);
	}
}

static void zoneinfo(FILE *f, const struct quire *q, const struct zone *z)
{
	static const char *const names[NR_WMARK] = { "min", "low", "high", "promo" };

	fprintf(f, "Node %d, zone %8s\n", z->nid, zone_names[z->type]);
	fprintf(f, "  pages free     %" PRIu64 "\n        boost    %" PRIu64 "\n", z->free_pages, z->watermark_boost);
	for (unsigned w = 0; w < NR_WMARK; w++)
		fprintf(f, "        %-8s %" PRIu64 "\n", names[w], z->watermark[w] + z->watermark_boost);
	fprintf(f, "        spanned  %" PRIu64 "\n        present  %" PRIu64 "\n        managed  %" PRIu64 "\n        cma      0\n",
		z->end_pfn - z->start_pfn, z->end_pfn - z->start_pfn, z->managed);
	fputs("        protection: (", f);
	for (unsigned t = 0; t < NR_ZONES; t++)
		fprintf(f, "%s%" PRIu64, t ? ", " : "", z->lowmem_reserve[t]);
	fputs(")\n", f);
	if (!z->managed)
		return;
	fprintf(f, "      nr_free_pages %" PRIu64 "\n", z->free_pages);
	pagesets(f, q, z);
	fprintf(f, "  node_unreclaimable:  0\n  start_pfn:           %" PRIu64 "\n", z->start_pfn);
}

/* Each zone that manages memory; or each. */
static void each_zone(FILE *f, const struct quire *q, bool all, void (*print)(FILE *f, const struct quire *q, const struct zone *z))
{
	for (unsigned n = 0; n < q->m->nr_nodes; n++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			if (all || q->nodes[n].zones[t].managed)
				print(f, q, &q->nodes[n].zones[t]);
}

static void print_buddyinfo(FILE *f, const struct quire *q, const struct zone *z)
{
	(void)q;
	buddyinfo(f, z);
}

static void print_free_by_type(FILE *f, const struct quire *q, const struct zone *z)
{
	(void)q;
	free_by_type(f, z);
}

static void print_blocks_by_type(FILE *f, const struct quire *q, const struct zone *z)
{
	(void)q;
	blocks_by_type(f, z);
}

static void print_unusable(FILE *f, const struct quire *q, const struct zone *z)
{
	(void)q;
	index_line(f, z, true);
}

static void print_extfrag(FILE *f, const struct quire *q, const struct zone *z)
{
	(void)q;
	index_line(f, z, false);
}

static void pagetypeinfo(FILE *f, const struct quire *q)
{
	fprintf(f, "Page block order: %d\nPages per block:  %" PRIu64 "\n\n%-43s ", PAGEBLOCK_ORDER, (uint64_t)PAGEBLOCK_FRAMES,
		"Free pages count per migrate type at order");
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		fprintf(f, "%6u ", o);
	fputc('\n', f);
	each_zone(f, q, false, print_free_by_type);
	fprintf(f, "\n%-23s", "Number of blocks type ");
	for (unsigned mt = 0; mt < NR_SHOWN_TYPES; mt++)
		fprintf(f, "%12s ", type_names[mt]);
	fputc('\n', f);
	each_zone(f, q, false, print_blocks_by_type);
}

void memory_proc_print(FILE *f, const struct quire *q, enum memory_proc which)
{
	switch (which) {
	case PROC_BUDDYINFO:
		each_zone(f, q, false, print_buddyinfo);
		break;
	case PROC_PAGETYPEINFO:
		pagetypeinfo(f, q);
		break;
	case PROC_ZONEINFO:
		each_zone(f, q, true, zoneinfo);
		break;
	case PROC_UNUSABLE_INDEX:
		each_zone(f, q, false, print_unusable);
		break;
	case PROC_EXTFRAG_INDEX:
		each_zone(f, q, false, print_extfrag);
		break;
	case NR_MEMORY_PROCS:
		break;
	}
}
