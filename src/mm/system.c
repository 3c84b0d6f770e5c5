/*
 * Boot, shutdown and the check of everything. struct quire itself is the first boot-time structure: it lies in node 0
 * right after the kernel image, so that even its locks and counters have modelled addresses and nothing needs a host
 * allocator.
 */
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/anon_vma.h"
#include "mm/compact.h"
#include "mm/fault.h"
#include "mm/kthread.h"
#include "mm/lru.h"
#include "mm/reclaim.h"
#include "mm/swap.h"
#include "mm/text.h"
#include "mm/tlb.h"

#include <string.h>

/* Who frees and orders memory for the page allocator. */
static const struct alloc_hooks alloc_hooks = {
	.wake_kswapd = wakeup_kswapd,
	.direct_reclaim = try_to_free_pages,
	.reclaimable_pages = reclaimable_pages,
	.oom = out_of_memory,
	.wake_kcompactd = wakeup_kcompactd,
	.direct_compact = compact_direct,
	.compact_suitable = compact_zonelist_suitable,
	.compact_defer_reset = compact_alloc_succeeded,
};

static int run_begin(struct cpu *c)
{
	kcompactd_begin(c);
	return kthreads_begin(c);
}

static int boot_error(char *err, size_t errlen, const char *what, int code)
{
	struct text t = text_into(err, errlen);

	text_str(&t, what);
	return code;
}

/* struct quire and its nodes, before anything can be carved by node. NULL: node 0 has no room. */
static struct quire *carve_first(struct machine *m)
{
	const struct machine_node *mn = &m->nodes[0];
	paddr_t pa = (mn->start_pfn << PAGE_SHIFT) + KERNEL_IMAGE_BYTES, limit = node_boot_limit(mn);
	paddr_t nodes_pa = ALIGN_UP(pa + sizeof(struct quire), CACHE_LINE);
	paddr_t kt_pa = ALIGN_UP(nodes_pa + m->nr_nodes * sizeof(struct node), CACHE_LINE);
	paddr_t end = kt_pa + sizeof(struct kthread);
	struct quire *q;

	if (end > limit)
		return NULL;
	q = machine_ptr(m, pa);
	memset(q, 0, end - pa);
	q->m = m;
	q->boot_mem = (char *)q;
	q->nodes = machine_ptr(m, nodes_pa);
	q->khugepaged.kt = machine_ptr(m, kt_pa);
	q->nodes[0].boot_next = end;
	q->nodes[0].boot_limit = limit;
	return q;
}

static void detach(struct machine *m)
{
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		m->cpus[i]->q = NULL;
		m->cpus[i]->pc = NULL;
	}
	m->hooks = (struct machine_hooks){ 0 };
}

int quire_boot(struct machine *m, const struct knobs *knobs, struct quire **ret_q, char *err, size_t errlen)
{
	struct cpu *c;
	struct quire *q;
	int res;

	if (!m->nr_cpus || !m->nr_nodes || m->nr_nodes > MACHINE_MAX_NODES || m->nr_cpus > QUIRE_MAX_CPUS)
		return boot_error(err, errlen, "a machine needs CPUs and nodes, and not more than can be handled",
				  -EINVAL);
	c = m->cpus[0];
	q = carve_first(m);
	if (!q)
		return boot_error(err, errlen,
				  "node 0 is too small for the kernel image (16 MiB) and the first structures",
				  -ENOMEM);
	if (knobs)
		q->knobs = *knobs;
	else
		knobs_default(&q->knobs);
	mlock_init(&q->list_lock, RANK_MMLIST, machine_pa(m, &q->list_lock));
	mlock_init(&q->file_lock, RANK_FILE, machine_pa(m, &q->file_lock));
	mlock_init(&q->huge_zero_lock, RANK_LRU, machine_pa(m, &q->huge_zero_lock));
	folio_waitq_init(q);
	list_init(&q->kthreads);
	list_init(&q->mms);
	list_init(&q->files);
	q->next_ctx = 1;
	q->next_file_id = 1;
	res = memory_boot(c, q);
	if (!res)
		res = slab_boot(c, q);
	if (res) {
		detach(m);
		return boot_error(err, errlen, q->err, res);
	}
	deferred_split_boot(q);
	kcompactd_boot(q);
	q->alloc_hooks = &alloc_hooks;
	khugepaged_boot(q);
	hugetlb_boot(c, q);
	for (unsigned i = 0; i < m->nr_nodes; i++)
		lruvec_init(q, &q->nodes[i].lruvec, (int)i);
	reclaim_boot(q);
	m->hooks = (struct machine_hooks){ .fault = mm_fault, .context_switch = mm_switch, .run_begin = run_begin };
	*ret_q = q;
	return 0;
}

int quire_shutdown(struct quire *q)
{
	struct machine *m = q->m;
	struct cpu *c = m->cpus[0];

	if (!list_empty(&q->mms) || !list_empty(&q->files))
		return -EBUSY;
	kthreads_free(c, q);
	swap_shutdown(q, c);
	if (q->huge_zero)
		frame_put(c, q->huge_zero);
	q->huge_zero = NULL;
	hugetlb_shutdown(c, q);
	lru_add_drain_all(c);
	/* Outside of tasks only CPU 0 may execute: it does the others' work with their areas. */
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		c->pc = q->percpu[i];
		slab_drain(c);
		pcp_drain(c);
	}
	memory_shutdown(q);
	detach(m);
	return 0;
}

int quire_validate(struct quire *q)
{
	struct mm *mm;

	if (memory_validate(q) || slab_validate(q) || file_validate(q))
		return -EINVAL;
	list_for_each_entry(mm, &q->mms, link)
		if (mm_validate(mm))
			return -EINVAL;
	if (khugepaged_validate(q))
		return -EINVAL;
	return quire_validate_mappings(q) || deferred_split_validate(q) || hugetlb_validate(q) || anon_vma_validate(q) || lru_validate(q) || swap_validate(q) ? -EINVAL :
																	     0;
}
