/*
 * The engine on the host machine and the kernel underneath, as the two sides of one table of calls.
 *
 * Both sides live in this process. The engine's memory is not inherited by fork (machine/host), so what is measured of the kernel's fork
 * is the area in question and the little that the process is otherwise. A child of the kernel's side waits on a pipe.
 */
#define _GNU_SOURCE
#include "lab/bench_sides.h"

#include "mm/tlb.h"
#include "mm/uapi.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUSY_PAGES 64

static uint64_t clock_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t bench_wall_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void)
{
	return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- the engine ---- */

int bench_side_open(struct bench_side *s, uint64_t memory, const struct knobs *k, char *err, size_t errlen)
{
	struct host_options o = {
		.memory = memory,
		.nr_cpus = 8,
		.shootdown = (enum host_shootdown)k->shootdown,
		.clear = (enum host_clear)k->host_clear,
		.populate = true,
	};
	int rc;

	memset(s, 0, sizeof(*s));
	s->ops = &bench_ours;
	rc = host_create(&o, &s->m, err, errlen);
	if (rc)
		return rc;
	rc = quire_boot(s->m, k, &s->q, err, errlen);
	if (!rc) {
		s->c = s->m->cpus[0];
		rc = mm_create(s->c, s->q, &s->mm);
		if (rc)
			snprintf(err, errlen, "no memory for an address space");
		else
			mm_activate(s->c, s->mm);
	}
	if (rc)
		bench_side_close(s);
	return rc;
}

void bench_side_close(struct bench_side *s)
{
	if (s->mm) {
		mm_activate(s->c, NULL);
		mm_put(s->c, s->mm);
	}
	if (s->q)
		(void)quire_shutdown(s->q);
	host_destroy(s->m);
	memset(s, 0, sizeof(*s));
}

static int ours_map(struct bench_side *s, uint64_t len, bool huge, uint64_t *ret)
{
	/* Room around it, so that one side's areas never merge with their neighbours. */
	int64_t va = mm_mmap(s->c, s->mm, 0, len, UAPI_PROT_READ | UAPI_PROT_WRITE, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS, NULL, 0);

	if (va < 0)
		return (int)va;
	*ret = (uint64_t)va;
	return (int)mm_madvise(s->c, s->mm, *ret, len, huge ? UAPI_MADV_HUGEPAGE : UAPI_MADV_NOHUGEPAGE);
}

static int ours_unmap(struct bench_side *s, uint64_t at, uint64_t len)
{
	return (int)mm_munmap(s->c, s->mm, at, len);
}

static int write_words(struct cpu *c, uint64_t at, uint64_t len, uint64_t step)
{
	int rc = 0;

	for (uint64_t end = at + len; at < end && !rc; at += step)
		rc = host_store(c, at, 8, at);
	return rc;
}

static int ours_write(struct bench_side *s, uint64_t at, uint64_t len, uint64_t step)
{
	return write_words(s->c, at, len, step);
}

static int ours_protect(struct bench_side *s, uint64_t at, uint64_t len, bool write)
{
	return (int)mm_mprotect(s->c, s->mm, at, len, UAPI_PROT_READ | (write ? UAPI_PROT_WRITE : 0));
}

static int ours_discard(struct bench_side *s, uint64_t at, uint64_t len)
{
	return (int)mm_madvise(s->c, s->mm, at, len, UAPI_MADV_DONTNEED);
}

static int ours_fork(struct bench_side *s)
{
	return mm_fork(s->c, s->mm, &s->child);
}

static void ours_end_child(struct bench_side *s)
{
	mm_put(s->c, s->child);
	s->child = NULL;
}

int bench_clear_frames(struct cpu *c, struct mm *mm, uint64_t at, uint64_t len)
{
	struct mm_page_info i;
	int rc = 0;

	for (uint64_t end = at + len; at < end && !rc; at += PMD_SIZE) {
		mm_page_info(mm, at, &i);
		for (unsigned n = 0; n < HPAGE_PMD_NR && !rc; n++)
			rc = i.present && i.huge ? c->m->ops->clear_page(c, pfn_add(i.pfn, n)) : -EFAULT;
	}
	return rc;
}

static void busy_begin(struct bench_busy *b)
{
	__atomic_store_n(&b->ready, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&b->go, __ATOMIC_ACQUIRE))
		;
	b->ns = bench_wall_ns();
}

static int ours_busy(struct bench_side *s, struct bench_busy *b)
{
	struct cpu *c;
	uint64_t v;
	int rc = host_attach(s->m, &c);

	if (rc) {
		__atomic_store_n(&b->ready, true, __ATOMIC_RELEASE);
		return rc;
	}
	mm_activate(c, s->mm);
	if (b->work == BUSY_LOADS) {
		while (!__atomic_load_n(&b->end, __ATOMIC_ACQUIRE) && !rc) {
			for (unsigned i = 0; i < BUSY_PAGES && !rc; i++)
				rc = host_load(c, b->at + i * PAGE_SIZE, 8, &v);
			__atomic_store_n(&b->ready, true, __ATOMIC_RELEASE);
			__atomic_add_fetch(&b->rounds, 1, __ATOMIC_RELAXED);
		}
	} else {
		busy_begin(b);
		rc = b->work == BUSY_FAULTS ? write_words(c, b->at, b->len, PAGE_SIZE) : bench_clear_frames(c, s->mm, b->at, b->len);
		b->ns = bench_wall_ns() - b->ns;
	}
	mm_activate(c, NULL);
	host_detach(c);
	return rc;
}

const struct bench_side_ops bench_ours = {
	.name = "quire",
	.map = ours_map,
	.unmap = ours_unmap,
	.write = ours_write,
	.protect = ours_protect,
	.discard = ours_discard,
	.fork = ours_fork,
	.end_child = ours_end_child,
	.busy = ours_busy,
};

/* ---- the kernel ---- */

static void *pointer(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

static int result(int rc)
{
	return rc ? -errno : 0;
}

static int kernel_map(struct bench_side *s, uint64_t len, bool huge, uint64_t *ret)
{
	char *p = mmap(NULL, len + PMD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t at = ALIGN_UP((uint64_t)(uintptr_t)p, PMD_SIZE);

	(void)s;
	if (p == MAP_FAILED)
		return -errno;
	if (at > (uint64_t)(uintptr_t)p)
		munmap(p, at - (uint64_t)(uintptr_t)p);
	munmap(pointer(at + len), (uint64_t)(uintptr_t)p + PMD_SIZE - at);
	*ret = at;
	return result(madvise(pointer(at), len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
}

static int kernel_unmap(struct bench_side *s, uint64_t at, uint64_t len)
{
	(void)s;
	return result(munmap(pointer(at), len));
}

static int kernel_write(struct bench_side *s, uint64_t at, uint64_t len, uint64_t step)
{
	(void)s;
	for (uint64_t end = at + len; at < end; at += step)
		*(volatile uint64_t *)pointer(at) = at;
	return 0;
}

static int kernel_protect(struct bench_side *s, uint64_t at, uint64_t len, bool write)
{
	(void)s;
	return result(mprotect(pointer(at), len, PROT_READ | (write ? PROT_WRITE : 0)));
}

static int kernel_discard(struct bench_side *s, uint64_t at, uint64_t len)
{
	(void)s;
	return result(madvise(pointer(at), len, MADV_DONTNEED));
}

static int kernel_fork(struct bench_side *s)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		return -errno;
	s->pid = fork();
	if (!s->pid) {
		close(fds[1]);
		while (read(fds[0], &byte, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	close(fds[0]);
	s->fd = fds[1];
	if (s->pid < 0) {
		close(s->fd);
		return -EAGAIN;
	}
	return 0;
}

static void kernel_end_child(struct bench_side *s)
{
	close(s->fd);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int kernel_busy(struct bench_side *s, struct bench_busy *b)
{
	(void)s;
	if (b->work == BUSY_LOADS) {
		while (!__atomic_load_n(&b->end, __ATOMIC_ACQUIRE)) {
			for (unsigned i = 0; i < BUSY_PAGES; i++)
				(void)*(volatile uint64_t *)pointer(b->at + i * PAGE_SIZE);
			__atomic_store_n(&b->ready, true, __ATOMIC_RELEASE);
			__atomic_add_fetch(&b->rounds, 1, __ATOMIC_RELAXED);
		}
		return 0;
	}
	busy_begin(b);
	(void)kernel_write(s, b->at, b->len, PAGE_SIZE);
	b->ns = bench_wall_ns() - b->ns;
	return 0;
}

const struct bench_side_ops bench_kernel = {
	.name = "linux",
	.map = kernel_map,
	.unmap = kernel_unmap,
	.write = kernel_write,
	.protect = kernel_protect,
	.discard = kernel_discard,
	.fork = kernel_fork,
	.end_child = kernel_end_child,
	.busy = kernel_busy,
};

/* ---- the other thread ---- */

int bench_real_cpu(unsigned n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &set) && !n--)
			return i;
	return -1;
}

/* Best effort: where it is refused, the scheduler decides. */
void bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

void bench_busy_await(const struct bench_busy *b)
{
	uint64_t seen = __atomic_load_n(&b->rounds, __ATOMIC_RELAXED);

	while (__atomic_load_n(&b->rounds, __ATOMIC_RELAXED) == seen && !__atomic_load_n(&b->end, __ATOMIC_RELAXED))
		;
}

static void *busy_main(void *arg)
{
	struct bench_busy *b = arg;

	bench_pin(b->real_cpu);
	b->rc = b->side->ops->busy(b->side, b);
	__atomic_store_n(&b->end, true, __ATOMIC_RELEASE);
	return NULL;
}

int bench_busy_start(struct bench_busy *b)
{
	if (pthread_create(&b->thread, NULL, busy_main, b))
		return -EAGAIN;
	while (!__atomic_load_n(&b->ready, __ATOMIC_ACQUIRE))
		sched_yield();
	return 0;
}

void bench_busy_go(struct bench_busy *b)
{
	__atomic_store_n(&b->go, true, __ATOMIC_RELEASE);
	__atomic_store_n(&b->end, true, __ATOMIC_RELEASE);
}

int bench_busy_join(struct bench_busy *b)
{
	pthread_join(b->thread, NULL);
	return b->rc;
}
