/* Addresses by name. Areas are kept as they were bound, the latest last; nothing is taken out when memory is unmapped. */
#include "script/run_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int run_area_add(struct script_run *r, const struct script_expr *e, uint64_t start, uint64_t len)
{
	struct run_area *a;
	uint32_t index;
	int rc = run_index(r, e, &index);

	if (rc)
		return rc;
	if (r->nr_areas == r->cap_areas) {
		a = realloc(r->areas, (r->cap_areas ? 2 * r->cap_areas : 16) * sizeof(*a));
		if (!a)
			return run_fail(r, -ENOMEM, e, "out of memory");
		r->areas = a;
		r->cap_areas = r->cap_areas ? 2 * r->cap_areas : 16;
	}
	r->areas[r->nr_areas++] = (struct run_area){ .start = start, .end = start + len, .name = e->name, .index = index };
	return 0;
}

static void write_label(const struct script_run *r, const struct run_area *a, uint64_t addr, char *buf, size_t len)
{
	int n = a->index ? snprintf(buf, len, "%s[%u]", r->s->names[a->name], a->index - 1) : snprintf(buf, len, "%s", r->s->names[a->name]);

	if (addr != a->start && n >= 0 && (size_t)n < len)
		snprintf(buf + n, len - (size_t)n, "+0x%" PRIx64, addr - a->start);
}

void script_run_label(const struct script_run *r, uint64_t addr, char *buf, size_t len)
{
	const struct run_area *ends = NULL;

	for (size_t i = r->nr_areas; i--;) {
		const struct run_area *a = &r->areas[i];

		if (addr >= a->start && addr < a->end) {
			write_label(r, a, addr, buf, len);
			return;
		}
		if (addr == a->end && !ends)
			ends = a;
	}
	if (ends)
		write_label(r, ends, addr, buf, len);
	else if (addr >= r->arena && addr - r->arena <= r->arena_len)
		snprintf(buf, len, "ARENA+0x%" PRIx64, addr - r->arena);
	else
		snprintf(buf, len, "0x%" PRIx64, addr);
}
