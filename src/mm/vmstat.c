/* Counters: names and sums. A CPU writes its own copy only; a reader adds them up without stopping anybody. */
#include "mm/vmstat.h"
#include "mm/system.h"

#include <string.h>

const char *const vm_counter_names[NR_VM_COUNTERS] = {
#define E(n) [VM_##n] = #n,
	VM_EVENTS(E) VM_GAUGES(E)
#undef E
};

void quire_time_add(struct cpu *c, unsigned kind, uint64_t ns)
{
	struct percpu *pc = c->pc;

	if (unlikely(!pc->fault_ns_used)) {
		memset(pc->fault_ns, 0, sizeof(struct hist) * NR_TIMES);
		__atomic_store_n(&pc->fault_ns_used, true, __ATOMIC_RELEASE);
	}
	hist_add(&pc->fault_ns[kind], ns);
}

static void times_of(const struct quire *q, unsigned k, struct hist *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		if (__atomic_load_n(&q->percpu[i]->fault_ns_used, __ATOMIC_ACQUIRE))
			hist_merge(ret, &q->percpu[i]->fault_ns[k]);
}

void quire_fault_ns(const struct quire *q, enum fault_kind k, struct hist *ret)
{
	times_of(q, k, ret);
}

void quire_bulk_ns(const struct quire *q, enum bulk_kind k, struct hist *ret)
{
	times_of(q, k, ret);
}

const char *const fault_phase_names[NR_FAULT_PHASES] = { "wait", "alloc", "reclaim", "compact", "clear", "copy", "map" };

void quire_fault_phases(const struct quire *q, enum fault_kind k, struct fault_phases *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < q->m->nr_cpus; i++) {
		const struct fault_phases *p = &q->percpu[i]->phases[k];

		for (unsigned j = 0; j < NR_FAULT_PHASES; j++)
			ret->sum[j] += p->sum[j];
		if (p->most > ret->most) {
			ret->most = p->most;
			memcpy(ret->longest, p->longest, sizeof(ret->longest));
		}
	}
}

uint64_t quire_fault_time_ns(const struct quire *q)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		for (unsigned k = 0; __atomic_load_n(&q->percpu[i]->fault_ns_used, __ATOMIC_ACQUIRE) && k < NR_FAULT_KINDS; k++)
			sum += hist_get(&q->percpu[i]->fault_ns[k].sum);
	return sum;
}

int64_t vmstat_read(const struct quire *q, enum vm_counter k)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		sum += __atomic_load_n(&q->percpu[i]->vmstat.v[k], __ATOMIC_RELAXED);
	return sum;
}
