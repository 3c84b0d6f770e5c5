/*
 * quire machine map: the map of memory of this computer or of another one, from what Linux prints (workload/memory_map.h). Ranges with what
 * they are, and zones beside what Linux itself says of them.
 */
#include "cli/cli.h"
#include "cli/common.h"
#include "mm/alloc_int.h"
#include "report/json.h"
#include "report/table.h"
#include "report/units.h"
#include "workload/memory_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const zone_names[NR_ZONES] = { "DMA32", "Normal", "Movable", "Device" };

struct map_out {
	const struct memory_map *m;
	struct table t;
	json_t *list;
	uint64_t memory, reserved, holes;
	unsigned nr_holes;
};

static void cell_u64(struct table *t, uint64_t v)
{
	char s[32];

	unit_grouped(s, v);
	table_cell(t, s);
}

static void line(struct map_out *o, uint64_t s, uint64_t e, int nid, const char *zone, const char *what)
{
	char text[48], size[UNIT_MAX];

	snprintf(text, sizeof(text), "%011" PRIx64 "-%011" PRIx64, s << PAGE_SHIFT, (e << PAGE_SHIFT) - 1);
	unit_format(size, STYLE_BYTES, (e - s) << PAGE_SHIFT, 0);
	table_cell(&o->t, text);
	table_cell(&o->t, size);
	if (nid < 0)
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%d", nid);
	table_cell(&o->t, text);
	table_cell(&o->t, zone);
	table_cell(&o->t, what);
	json_array_append_new(o->list, json_pack("{s:o, s:o, s:i, s:s, s:s}", "start", report_json_u64(s << PAGE_SHIFT), "bytes",
						 report_json_u64((e - s) << PAGE_SHIFT), "node", nid, "zone", zone, "what", what));
}

/* A part of one zone: what is free of it, and what is reserved in between. */
static void zone_part(struct map_out *o, uint64_t s, uint64_t e, int nid, const char *zone)
{
	struct memblock_iter it = { 0 };
	uint64_t at = s, fs, fe;

	while (at < e) {
		bool more = memblock_next_free(&o->m->mb, &it, nid, at, e, &fs, &fe);

		if (!more)
			fs = fe = e;
		if (fs > at) {
			line(o, at, fs, nid, zone, "reserved");
			o->reserved += fs - at;
		}
		if (more)
			line(o, fs, fe, nid, zone, "memory");
		at = fe;
	}
	o->memory += e - s;
}

static void ranges(struct map_out *o)
{
	const struct memblock_list *l = &o->m->mb.memory;
	uint64_t last = 0;

	for (unsigned i = 0; i < l->nr; i++) {
		const struct memblock_region *r = &l->r[i];

		if (r->start > last) {
			line(o, last, r->start, -1, "-", "hole");
			o->holes += r->start - last;
			o->nr_holes++;
		}
		for (uint64_t p = r->start, stop; p < r->end; p = stop) {
			unsigned z = memblock_zone(&o->m->mb, r->nid, p);
			uint64_t zs, ze;

			memblock_zone_span(&o->m->mb, r->nid, (enum zone_type)z, &zs, &ze);
			stop = MIN(r->end, MAX(ze, p + 1));
			zone_part(o, p, stop, r->nid, zone_names[z]);
		}
		last = r->end;
	}
}

/* Zones as Linux has them beside what the map has between the same frames. Returns how many differ. */
static unsigned zones(const struct memory_map *m, struct table *t, json_t *list)
{
	unsigned differ = 0;

	for (unsigned i = 0; i < m->nr_zones; i++) {
		const struct memory_map_zone *z = &m->zone[i];
		uint64_t reserved, here = memory_map_frames(m, z->nid, z->start, z->start + z->spanned, &reserved);
		char name[32];

		snprintf(name, sizeof(name), "node %d, %s", z->nid, z->name);
		table_cell(t, name);
		cell_u64(t, z->start);
		cell_u64(t, z->spanned);
		cell_u64(t, here);
		cell_u64(t, z->present);
		cell_u64(t, reserved);
		cell_u64(t, z->present - z->managed);
		differ += here != z->present;
		json_array_append_new(list, json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "node", z->nid, "zone", z->name, "start_pfn",
						      report_json_u64(z->start), "spanned", report_json_u64(z->spanned), "present",
						      report_json_u64(here), "linux_present", report_json_u64(z->present), "reserved",
						      report_json_u64(reserved), "linux_unmanaged",
						      report_json_u64(z->present - z->managed)));
	}
	return differ;
}

static void heading(struct table *t, const char *const *names, size_t nr)
{
	table_init(t, nr);
	for (size_t i = 0; i < nr; i++)
		table_cell(t, names[i]);
}

static int print(const struct memory_map *m, const char *iomem, const char *json_path, struct output *out)
{
	static const char *const range_heads[] = { "range", "size", "node", "zone", "what" };
	static const char *const zone_heads[] = { "frames", "start", "spanned", "present", "in Linux", "reserved", "not in Linux's lists" };
	FILE *f = text_stream(json_path);
	struct map_out o = { .m = m, .list = json_array() };
	json_t *root = report_json("machine map"), *zl = json_array();
	char a[UNIT_MAX], b[UNIT_MAX];
	unsigned differ = 0;
	struct table t;

	heading(&o.t, range_heads, ARRAY_SIZE(range_heads));
	ranges(&o);
	unit_format(a, STYLE_BYTES, o.memory << PAGE_SHIFT, 0);
	unit_format(b, STYLE_BYTES, o.reserved << PAGE_SHIFT, 0);
	fprintf(f, "%s: %s of memory on %u node%s, %s of it reserved, %u hole%s\n\n", iomem, a, m->nr_nodes, m->nr_nodes == 1 ? "" : "s", b,
		o.nr_holes, o.nr_holes == 1 ? "" : "s");
	table_print(&o.t, f, TABLE_WIDTH, false);
	table_done(&o.t);
	heading(&t, zone_heads, ARRAY_SIZE(zone_heads));
	differ = zones(m, &t, zl);
	if (m->nr_zones) {
		fputc('\n', f);
		table_print(&t, f, TABLE_WIDTH, false);
		if (differ)
			fprintf(f, "%u zone%s not as large here as in Linux: the two files are of different times or computers\n", differ,
				differ == 1 ? " is" : "s are");
	}
	table_done(&t);
	json_object_set_new(root, "source", json_string(iomem));
	json_object_set_new(root, "nodes", json_integer(m->nr_nodes));
	json_object_set_new(root, "memory_bytes", report_json_u64(o.memory << PAGE_SHIFT));
	json_object_set_new(root, "reserved_bytes", report_json_u64(o.reserved << PAGE_SHIFT));
	json_object_set_new(root, "holes", json_integer(o.nr_holes));
	json_object_set_new(root, "ranges", o.list);
	json_object_set_new(root, "zones", zl);
	return json_end(out, root);
}

int machine_map(const char *iomem, const char *zoneinfo, const char *json_path, struct output *out)
{
	struct memory_map m;
	char err[300] = "";
	int code;

	if (!zoneinfo && !iomem)
		zoneinfo = "/proc/zoneinfo";
	iomem = iomem ? iomem : "/proc/iomem";
	code = memory_map_read(iomem, zoneinfo, &m, err, sizeof(err)) ? failure("%s", err) : -1;
	if (code < 0)
		code = print(&m, iomem, json_path, out);
	memory_map_done(&m);
	return code;
}
