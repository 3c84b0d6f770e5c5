/*
 * The swap device: an NVMe drive as its data sheet has it. A request waits until one of queue_depth places in the drive is free, then for
 * the transfers of its direction before it; it is done after its own transfer and the latency. Reads and writes do not slow each other
 * down, and nothing wears or collects garbage. The CPU's part (building the request, the interrupt) is the engine's to charge.
 *
 * Contents move at once, when the request is made, as tags: the contract lets nobody look before it is done. Under a schedule there
 * is no time, and the device is done at once.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/model/schedule_int.h"

#include <errno.h>
#include <stdlib.h>

int swap_init(struct model *md)
{
	struct swap_device *s = &md->swap;

	md->m.swap_slots = md->desc.swap.size >> PAGE_SHIFT;
	if (!md->m.swap_slots)
		return 0;
	/* Zero pages until something is written. */
	s->tags = calloc(md->m.swap_slots, sizeof(*s->tags));
	s->free_ps = calloc(MAX(md->desc.swap.queue_depth, 1U), sizeof(*s->free_ps));
	if (s->tags && s->free_ps)
		return 0;
	swap_done(md);
	return -ENOMEM;
}

void swap_done(struct model *md)
{
	free(md->swap.tags);
	free(md->swap.free_ps);
	md->swap.tags = md->swap.free_ps = NULL;
}

/* When a request made at `now` is done. */
static uint64_t serve(struct model *md, uint64_t now, unsigned nr, bool write)
{
	struct swap_device *s = &md->swap;
	const struct machine_desc *d = &md->desc;
	uint64_t *place = &s->free_ps[0], *through = write ? &s->write_free_ps : &s->read_free_ps;
	uint64_t MBps = MAX(write ? d->swap.write_bw_MBps : d->swap.read_bw_MBps, 1U);

	for (uint32_t i = 1; i < d->swap.queue_depth; i++)
		if (s->free_ps[i] < *place)
			place = &s->free_ps[i];
	/* A megabyte a second is a byte a microsecond. */
	*through = MAX(MAX(now, *place), *through) + nr * PAGE_SIZE * 1000000 / MBps;
	*place = *through + (write ? d->swap.write_latency_ps : d->swap.read_latency_ps);
	return *place;
}

int model_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns)
{
	struct model *md = model_of(c);

	ASSERT(nr && slot < md->m.swap_slots && nr <= md->m.swap_slots - slot);
	if (md->sched.schedule)
		schedule_point(c, POINT_COPY);
	else
		sched_sync(c);
	for (unsigned i = 0; i < nr; i++) {
		ASSERT(frames[i].v < md->m.max_pfn);
		if (write)
			md->swap.tags[slot + i] = md->m.tags[frames[i].v];
		else
			md->m.tags[frames[i].v] = md->swap.tags[slot + i];
	}
	*ret_done_ns = c->now_ps / PS_PER_NS;
	if (!md->sched.schedule)
		*ret_done_ns = (serve(md, c->now_ps, nr, write) + PS_PER_NS - 1) / PS_PER_NS;
	return 0;
}
