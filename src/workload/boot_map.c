/*
 * The map of memory that boot and hotplug work on.
 *
 * Of a machine: the first part of each node's memory above 4 GiB, as large as asked for. In the boot's, node 0 has its first section below
 * 4 GiB instead, which is zone DMA32's and initialised early, with a kernel image and an initial file system in it; and at the
 * beginning of each node's part the frames are reserved that the descriptors of that part take. That is what memblock has taken when
 * descriptors are initialised.
 * Of a file: as read (memory_map.h); the frames that descriptors take are reserved at the end of a node's largest free range, where memblock
 * looks first, since Linux's text does not name them.
 */
#include "workload/boot_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PFN DMA32_END_PFN
#define KERNEL_FRAMES (KERNEL_IMAGE_BYTES >> PAGE_SHIFT)
#define INITRD_FRAMES ((32ULL << 20) >> PAGE_SHIFT)
#define OWN_RANGES (2 * MACHINE_MAX_NODES + 8)

static uint64_t memmap_frames(uint64_t frames)
{
	return (frames * sizeof(struct frame) + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

static int no_memory(char *err, size_t errlen)
{
	snprintf(err, errlen, "out of memory");
	return -ENOMEM;
}

/* ---- a machine's ---- */

static uint64_t first_of(const struct machine *m, unsigned nid)
{
	return MAX(ALIGN_UP(m->nodes[nid].start_pfn, SECTION_FRAMES), FIRST_PFN);
}

static int node_part(struct boot *b, unsigned nid, uint64_t frames, char *err, size_t errlen)
{
	uint64_t low = !nid && !b->hotplug ? SECTION_FRAMES : 0, first = b->model ? first_of(b->m, nid) : FIRST_PFN, start = first - low;
	struct memblock *mb = &b->map.mb;
	int rc;

	if (b->model && (first >= b->m->nodes[nid].end_pfn || frames > b->m->nodes[nid].end_pfn - first)) {
		snprintf(err, errlen, "boot: node %u has no %llu MiB above 4 GiB", nid, (unsigned long long)(frames >> 8));
		return -EINVAL;
	}
	b->node[nid].desc_base = start;
	b->node[nid].desc_pa = b->model ? b->q->section_map[start >> SECTION_SHIFT] : 0;
	b->total += frames;
	if (b->hotplug)
		return 0;
	rc = memblock_add(&mb->memory, start, start + frames, (int)nid);
	if (!rc && low)
		rc = memblock_add(&mb->reserved, start, start + KERNEL_FRAMES + INITRD_FRAMES, NID_NONE);
	return rc ? rc : memblock_add(&mb->reserved, first, first + memmap_frames(frames), NID_NONE);
}

static int own_map(struct boot *b, const struct workload *wl, char *err, size_t errlen)
{
	uint64_t size = b->o->size ? b->o->size : wl->size;
	struct memblock *mb = &b->map.mb;
	unsigned least = b->hotplug ? 1 : 2;
	int rc = 0;

	b->frames = ALIGN_DOWN((size >> PAGE_SHIFT) / b->nr_nodes, SECTION_FRAMES);
	if (b->frames < least * SECTION_FRAMES) {
		snprintf(err, errlen, "%s: at least %u MiB a node", wl->name, least * 128);
		return -EINVAL;
	}
	b->base = FIRST_PFN - (b->hotplug ? 0 : SECTION_FRAMES);
	mb->memory = (struct memblock_list){ calloc(OWN_RANGES, sizeof(*mb->memory.r)), 0, OWN_RANGES };
	mb->reserved = (struct memblock_list){ calloc(OWN_RANGES, sizeof(*mb->reserved.r)), 0, OWN_RANGES };
	mb->dma32_end = FIRST_PFN;
	if (!mb->memory.r || !mb->reserved.r)
		return no_memory(err, errlen);
	for (unsigned i = 0; i < b->nr_nodes && !rc; i++)
		rc = node_part(b, i, b->frames, err, errlen);
	return rc;
}

/* ---- a file's ---- */

static int reserve_memmap(struct boot *b, int nid)
{
	struct memblock *mb = &b->map.mb;
	struct memblock_iter it = { 0 };
	uint64_t held, need = memmap_frames(memory_map_frames(&b->map, nid, 0, MEMBLOCK_NONE, &held));
	uint64_t lo = 0, s, e, best_start = 0, best_end = 0;

	while (memblock_next_free(mb, &it, nid, lo, MEMBLOCK_NONE, &s, &e)) {
		if (e - s > best_end - best_start) {
			best_start = s;
			best_end = e;
		}
		lo = e;
	}
	need = MIN(need, best_end - best_start);
	return need ? memblock_add(&mb->reserved, best_end - need, best_end, NID_NONE) : 0;
}

/* Where a node's descriptors lie: as many as its memory spans. */
static int place(struct boot *b, unsigned nid, char *err, size_t errlen)
{
	const struct memblock_list *l = &b->map.mb.memory;
	uint64_t start = MEMBLOCK_NONE, end = 0;

	for (unsigned i = 0; i < l->nr; i++)
		if (l->r[i].nid == (int)nid) {
			start = MIN(start, l->r[i].start);
			end = l->r[i].end;
		}
	if (!end)
		return 0;
	start = ALIGN_DOWN(start, SECTION_FRAMES);
	b->node[nid].desc_base = start;
	if (!b->model)
		return 0;
	if (end - start > b->m->nodes[nid].end_pfn - b->m->nodes[nid].start_pfn) {
		snprintf(err, errlen, "%s: node %u spans %llu MiB, the modelled machine's node has %llu", b->o->map, nid,
			 (unsigned long long)((end - start) >> 8),
			 (unsigned long long)((b->m->nodes[nid].end_pfn - b->m->nodes[nid].start_pfn) >> 8));
		return -EINVAL;
	}
	b->node[nid].desc_pa = b->q->section_map[b->m->nodes[nid].start_pfn >> SECTION_SHIFT];
	return 0;
}

static int given_map(struct boot *b, char *err, size_t errlen)
{
	const struct memblock_list *l = &b->map.mb.memory;
	int rc = 0;

	for (unsigned i = 0; i < b->nr_nodes && !rc; i++)
		rc = reserve_memmap(b, (int)i);
	for (unsigned i = 0; i < b->nr_nodes && !rc; i++)
		rc = place(b, i, err, errlen);
	if (rc)
		return rc;
	b->base = ALIGN_DOWN(l->r[0].start, SECTION_FRAMES);
	b->frames = ALIGN_UP(l->r[l->nr - 1].end, SECTION_FRAMES) - b->base;
	for (unsigned i = 0; i < l->nr; i++)
		b->total += l->r[i].end - l->r[i].start;
	return 0;
}

/* ---- both ---- */

/* Gigantic pages lie behind their node's memory, which the model must have. */
static int place_gigantic(struct boot *b, char *err, size_t errlen)
{
	uint64_t size = 1ULL << (PUD_SHIFT - PAGE_SHIFT), each = (b->o->gigantic + b->nr_nodes - 1) / b->nr_nodes;

	b->gigantic = calloc(b->nr_nodes, sizeof(*b->gigantic));
	b->early_done = calloc(b->nr_nodes, sizeof(*b->early_done));
	if (!b->gigantic || !b->early_done)
		return no_memory(err, errlen);
	for (unsigned i = 0; i < b->nr_nodes && each; i++) {
		uint64_t first = ALIGN_UP(b->node[i].desc_base + b->frames, size);

		if (!b->model || first + each * size > b->m->nodes[i].end_pfn) {
			snprintf(err, errlen, "boot: node %u has no room for %llu gigantic pages behind its memory", i, (unsigned long long)each);
			return -EINVAL;
		}
		b->gigantic[i] = first;
	}
	return 0;
}

static int set_up(struct boot *b, char *err, size_t errlen)
{
	uint64_t sections = (b->base + b->frames) >> SECTION_SHIFT, held;

	if (b->model)
		sections = MAX(sections, b->m->max_pfn >> SECTION_SHIFT);
	b->mi.section = calloc(sections + 1, 1);
	if (!b->mi.section)
		return no_memory(err, errlen);
	b->mi.m = b->m;
	b->mi.mb = &b->map.mb;
	b->mi.nr_nodes = b->nr_nodes;
	b->mi.node = b->node;
	b->mi.step = b->q->knobs.memmap_init;
	b->mi.hotplug = b->q->knobs.hotplug_init;
	b->mi.transient = b->model;
	for (unsigned i = 0; i < b->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++) /* the zone's structure is where the engine's own is */
			b->node[i].zone[t].pa = b->model ? machine_pa(b->m, &b->q->nodes[i].zones[ZONE_NORMAL]) : 0;
	(void)memory_map_frames(&b->map, NID_NONE, 0, MEMBLOCK_NONE, &held);
	b->idle = b->total - held;
	return meminit_setup(&b->mi);
}

int boot_map_open(struct boot *b, const struct workload *wl, char *err, size_t errlen)
{
	int rc;

	b->node = aligned_alloc(_Alignof(struct meminit_node), b->nr_nodes * sizeof(*b->node));
	if (!b->node)
		return no_memory(err, errlen);
	memset(b->node, 0, b->nr_nodes * sizeof(*b->node));
	rc = b->o->map ? given_map(b, err, errlen) : own_map(b, wl, err, errlen);
	if (!rc)
		rc = place_gigantic(b, err, errlen);
	if (!rc)
		rc = set_up(b, err, errlen);
	if (rc && errlen && !err[0])
		snprintf(err, errlen, "boot: the map of memory: %s", strerror(-rc));
	return rc;
}

void boot_map_done(struct boot *b)
{
	free(b->node);
	free(b->mi.section);
	free(b->gigantic);
	free(b->early_done);
	memory_map_done(&b->map);
}
