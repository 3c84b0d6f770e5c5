/* Counters: names and sums. A CPU writes its own copy only; a reader adds them up without stopping anybody. */
#include "mm/vmstat.h"
#include "mm/system.h"

const char *const vm_counter_names[NR_VM_COUNTERS] = {
#define E(n) [VM_##n] = #n,
	VM_EVENTS(E) VM_GAUGES(E)
#undef E
};

int64_t vmstat_read(const struct quire *q, enum vm_counter k)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		sum += __atomic_load_n(&q->percpu[i]->vmstat.v[k], __ATOMIC_RELAXED);
	return sum;
}
