/* The public calls on an address space's memory: the engine's, between entering and leaving the kernel. No state, no locks. */
#include "api/api_int.h"

#include "mm/gup.h"
#include "mm/uapi.h"

#include <errno.h>
#include <stdlib.h>

/* The end of a call that returns an address. */
static int address(struct quire_thread *t, int64_t rc, quire_addr_t *ret)
{
	api_leave(t);
	if (rc < 0)
		return (int)rc;
	*ret = (quire_addr_t)rc;
	return 0;
}

static int done(struct quire_thread *t, int64_t rc)
{
	api_leave(t);
	return (int)rc;
}

int quire_mmap(struct quire_thread *t, quire_addr_t addr, uint64_t len, int prot, int flags, quire_addr_t *ret)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return address(t, mm_mmap(t->c, t->space->mm, addr, len, (unsigned)prot, (unsigned)flags | UAPI_MAP_ANONYMOUS, NULL, 0), ret);
}

int quire_munmap(struct quire_thread *t, quire_addr_t addr, uint64_t len)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_munmap(t->c, t->space->mm, addr, len));
}

int quire_mprotect(struct quire_thread *t, quire_addr_t addr, uint64_t len, int prot)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_mprotect(t->c, t->space->mm, addr, len, (unsigned)prot));
}

int quire_mremap(struct quire_thread *t, quire_addr_t old_addr, uint64_t old_len, uint64_t new_len, int flags, quire_addr_t new_addr,
		 quire_addr_t *ret)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return address(t, mm_mremap(t->c, t->space->mm, old_addr, old_len, new_len, (unsigned)flags, new_addr), ret);
}

int quire_madvise(struct quire_thread *t, quire_addr_t addr, uint64_t len, int advice)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_madvise(t->c, t->space->mm, addr, len, advice));
}

int quire_mlock(struct quire_thread *t, quire_addr_t addr, uint64_t len)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_mlock(t->c, t->space->mm, addr, len, false));
}

int quire_munlock(struct quire_thread *t, quire_addr_t addr, uint64_t len)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_munlock(t->c, t->space->mm, addr, len));
}

int quire_mincore(struct quire_thread *t, quire_addr_t addr, uint64_t len, unsigned char *vec)
{
	if (!t->space)
		return -EFAULT;
	api_enter(t);
	return done(t, mm_mincore(t->c, t->space->mm, addr, len, vec));
}

/* ---- access ---- */

int quire_load(struct quire_thread *t, quire_addr_t addr, unsigned size, uint64_t *ret)
{
	return size - 1 < 8 ? host_load(t->c, addr, size, ret) : -EINVAL;
}

int quire_store(struct quire_thread *t, quire_addr_t addr, unsigned size, uint64_t value)
{
	return size - 1 < 8 ? host_store(t->c, addr, size, value) : -EINVAL;
}

int quire_read(struct quire_thread *t, quire_addr_t addr, void *buf, size_t len, size_t *ret_done)
{
	size_t n;

	return host_read(t->c, addr, buf, len, ret_done ? ret_done : &n);
}

int quire_write(struct quire_thread *t, quire_addr_t addr, const void *buf, size_t len, size_t *ret_done)
{
	size_t n;

	return host_write(t->c, addr, buf, len, ret_done ? ret_done : &n);
}

/* ---- pins ---- */

/* What the engine wants back, and behind it what the program sees. */
struct pin {
	pfn_t *frames;
	uint64_t nr;
	struct quire_pin shown; /* last: its segments follow */
};

/* One segment a run of adjacent frames. */
static void show(struct machine *m, struct quire_pin *shown, const pfn_t *frames, quire_addr_t addr, size_t len)
{
	size_t offset = addr & (PAGE_SIZE - 1);

	shown->nr = 0;
	for (size_t i = 0; len; i++) {
		size_t part = MIN(len, PAGE_SIZE - offset);
		char *ptr = (char *)machine_ptr(m, pfn_to_paddr(frames[i])) + offset;
		struct quire_segment *last = shown->nr ? &shown->segments[shown->nr - 1] : NULL;

		if (last && (char *)last->ptr + last->len == ptr)
			last->len += part;
		else
			shown->segments[shown->nr++] = (struct quire_segment){ .ptr = ptr, .len = part };
		len -= part;
		offset = 0;
	}
}

int quire_pin(struct quire_thread *t, quire_addr_t addr, size_t len, int flags, struct quire_pin **ret)
{
	vaddr_t start = ALIGN_DOWN(addr, PAGE_SIZE);
	uint64_t nr;
	struct pin *p;
	int rc;

	if (!len || (flags & ~QUIRE_PIN_WRITE))
		return -EINVAL;
	if (!t->space || addr >= TASK_SIZE || len > TASK_SIZE - addr)
		return -EFAULT;
	nr = (ALIGN_UP(addr + len, PAGE_SIZE) - start) >> PAGE_SHIFT;
	if (nr > SIZE_MAX / 64)
		return -ENOMEM;
	p = malloc(sizeof(*p) + nr * sizeof(struct quire_segment));
	pfn_t *frames = p ? malloc(nr * sizeof(*frames)) : NULL;

	if (!frames) {
		free(p);
		return -ENOMEM;
	}
	api_enter(t);
	rc = mm_pin(t->c, t->space->mm, start, nr, (flags & QUIRE_PIN_WRITE) != 0, frames);
	api_leave(t);
	if (rc) {
		free(frames);
		free(p);
		return rc;
	}
	p->frames = frames;
	p->nr = nr;
	show(t->q->m, &p->shown, frames, addr, len);
	pthread_mutex_lock(&t->q->lock);
	t->q->nr_pins++;
	pthread_mutex_unlock(&t->q->lock);
	*ret = &p->shown;
	return 0;
}

void quire_unpin(struct quire_thread *t, struct quire_pin *pin)
{
	struct pin *p;

	if (!pin)
		return;
	p = container_of(pin, struct pin, shown);
	api_enter(t);
	mm_unpin(t->c, p->frames, p->nr);
	api_leave(t);
	pthread_mutex_lock(&t->q->lock);
	t->q->nr_pins--;
	pthread_mutex_unlock(&t->q->lock);
	free(p->frames);
	free(p);
}
