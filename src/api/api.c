/*
 * The public calls (include/quire/quire.h) over the host machine: managers, threads and address spaces.
 *
 * A call's pattern: the thread is inside the kernel from machine_enter on, where no flusher waits for it, and its next access brings
 * it out again. Slot 0 of the machine belongs to the manager, for boot and end only.
 * Locks: q->lock guards what close has to know, the numbers of threads and address spaces.
 */
#include "api/api_int.h"

#include "mm/knobs.h"
#include "mm/tlb.h"
#include "mm/vmstat.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(char *err, size_t errlen, int rc, const char *format, ...) ATTR_PRINTF(4, 5);

static int refuse(char *err, size_t errlen, int rc, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	if (errlen)
		vsnprintf(err, errlen, format, ap);
	va_end(ap);
	return rc;
}

/* "name=value" settings over the defaults. */
static int read_settings(const char *const *settings, struct knobs *k, char *err, size_t errlen)
{
	knobs_default(k);
	for (; settings && *settings; settings++) {
		const char *eq = strchr(*settings, '=');
		char name[80], text[200] = "";
		int rc;

		if (!eq || (size_t)(eq - *settings) >= sizeof(name))
			return refuse(err, errlen, -EINVAL, "setting '%s': not of the form name=value", *settings);
		memcpy(name, *settings, (size_t)(eq - *settings));
		name[eq - *settings] = 0;
		rc = knob_set(k, name, eq + 1, text, sizeof(text));
		if (rc == -ENOENT)
			return refuse(err, errlen, -EINVAL, "setting '%s': there is none of that name", name);
		if (rc)
			return refuse(err, errlen, -EINVAL, "setting '%s': %s", name, text);
	}
	return 0;
}

int quire_open(const struct quire_options *options, struct quire_manager **ret, char *err, size_t errlen)
{
	static const struct quire_options defaults = { 0 };
	const struct quire_options *o = options ? options : &defaults;
	struct quire_manager *q;
	struct knobs k;
	int rc = read_settings(o->settings, &k, err, errlen);

	if (rc)
		return rc;
	if (o->max_threads > HOST_API_MAX_THREADS)
		return refuse(err, errlen, -EINVAL, "at most %u threads", HOST_API_MAX_THREADS);
	q = calloc(1, sizeof(*q));
	if (!q)
		return refuse(err, errlen, -ENOMEM, "out of memory");

	struct host_options host = {
		.memory = o->memory,
		.nr_cpus = (o->max_threads ? o->max_threads : HOST_DEFAULT_CPUS - 1) + 1,
		.shootdown = (enum host_shootdown)k.shootdown,
		.clear = (enum host_clear)k.host_clear,
		.populate = o->populate != 0,
	};

	rc = host_create(&host, &q->m, err, errlen);
	if (!rc)
		rc = quire_boot(q->m, &k, &q->q, err, errlen);
	if (rc) {
		host_destroy(q->m);
		free(q);
		return rc;
	}
	pthread_mutex_init(&q->lock, NULL);
	*ret = q;
	return 0;
}

int quire_close(struct quire_manager *q)
{
	bool busy;

	if (!q)
		return 0;
	pthread_mutex_lock(&q->lock);
	busy = q->nr_threads || q->nr_spaces || q->nr_pins;
	pthread_mutex_unlock(&q->lock);
	if (busy)
		return -EBUSY;
	mm_activate(q->m->cpus[0], NULL);
	int rc = quire_shutdown(q->q);

	if (rc)
		return rc;
	host_destroy(q->m);
	pthread_mutex_destroy(&q->lock);
	free(q);
	return 0;
}

int quire_counter(const struct quire_manager *q, const char *name, int64_t *ret)
{
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++) {
		if (strcmp(vm_counter_names[i], name))
			continue;
		*ret = vmstat_read(q->q, (enum vm_counter)i);
		return 0;
	}
	return -ENOENT;
}

/* ---- threads ---- */

static void count(struct quire_manager *q, unsigned *what, int by)
{
	pthread_mutex_lock(&q->lock);
	*what += (unsigned)by;
	pthread_mutex_unlock(&q->lock);
}

int quire_attach(struct quire_manager *q, struct quire_thread **ret)
{
	struct quire_thread *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->q = q;
	rc = host_attach(q->m, &t->c);
	if (rc) {
		free(t);
		return rc;
	}
	count(q, &q->nr_threads, 1);
	*ret = t;
	return 0;
}

void quire_detach(struct quire_thread *t)
{
	if (!t)
		return;
	quire_space_switch(t, NULL);
	count(t->q, &t->q->nr_threads, -1);
	host_detach(t->c);
	free(t);
}

/* ---- address spaces ---- */

static int adopt(struct quire_thread *t, struct mm *mm, struct quire_space **ret)
{
	struct quire_space *s = calloc(1, sizeof(*s));

	if (!s) {
		mm_put(t->c, mm);
		return -ENOMEM;
	}
	s->mm = mm;
	s->refs = 1;
	count(t->q, &t->q->nr_spaces, 1);
	*ret = s;
	return 0;
}

int quire_space_create(struct quire_thread *t, struct quire_space **ret)
{
	struct mm *mm;
	int rc;

	api_enter(t);
	rc = mm_create(t->c, t->q->q, &mm);
	if (!rc)
		rc = adopt(t, mm, ret);
	api_leave(t);
	return rc;
}

int quire_space_fork(struct quire_thread *t, struct quire_space *space, struct quire_space **ret)
{
	struct mm *child;
	int rc;

	api_enter(t);
	rc = mm_fork(t->c, space->mm, &child);
	if (!rc)
		rc = adopt(t, child, ret);
	api_leave(t);
	return rc;
}

void quire_space_put(struct quire_thread *t, struct quire_space *space)
{
	if (!space || __atomic_sub_fetch(&space->refs, 1, __ATOMIC_ACQ_REL))
		return;
	api_enter(t);
	mm_put(t->c, space->mm);
	api_leave(t);
	free(space);
	count(t->q, &t->q->nr_spaces, -1);
}

void quire_space_switch(struct quire_thread *t, struct quire_space *space)
{
	struct quire_space *old = t->space;

	if (space)
		__atomic_add_fetch(&space->refs, 1, __ATOMIC_RELAXED);
	api_enter(t);
	t->c->current->mm = space ? space->mm : NULL;
	mm_activate(t->c, space ? space->mm : NULL);
	api_leave(t);
	t->space = space;
	quire_space_put(t, old);
}
