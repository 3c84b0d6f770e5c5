/*
 * Replay's loop: each stream of a recording is a task; its words are consumed block by block, references by the machine's
 * fast path, control words here.
 */
#include "workload/replay_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_REFS (1U << 20)

void replay_fail(struct replay *rp, int error, const char *fmt, ...)
{
	va_list ap;

	if (rp->error)
		return;
	rp->error = error;
	va_start(ap, fmt);
	vsnprintf(rp->err, rp->errlen, fmt, ap);
	va_end(ap);
	rp->m->stop = true;
}

/* ---- streams ---- */

/* Words of one stream's first block are looked at to learn whose child it is; the block stays with the stream. */
static int stream_discover(struct replay *rp, uint32_t nr)
{
	struct replay_stream *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->rp = rp;
	s->nr = nr;
	list_init(&s->wait_link);
	r = rp->src->ops->next(rp->src, rp->cur, nr, &s->block);
	if (r <= 0 || s->block.nr < 8 || !(s->block.words[0] & WORD_CONTROL) || word_type(s->block.words[0]) != W_THREAD) {
		if (r > 0)
			rp->src->ops->put(rp->src, rp->cur, &s->block);
		free(s);
		return r < 0 ? r : 0; /* a stream without a head, after damage: nobody's child */
	}
	const uint64_t *pay = s->block.words + 1;

	s->have_block = true;
	s->pos = 1 + word_payload(s->block.words[0]);
	s->pid = pay[1];
	s->tid = pay[2];
	s->parent = pay[3];
	s->clone_ticket = pay[4];
	s->clone_flags = pay[5];
	s->how = (enum thread_how)pay[6];
	s->passed = pay[0];
	list_add_tail(&s->link, &rp->streams);
	return 0;
}

static bool discover_next(struct replay *rp)
{
	if (!rp->src->ops->has_stream(rp->src, rp->cur, rp->next_unseen))
		return false;
	int e = stream_discover(rp, rp->next_unseen++);

	if (e == -ENOMEM)
		replay_fail(rp, e, "out of memory for stream %u", rp->next_unseen - 1);
	return !rp->error;
}

struct replay_stream *replay_find_child(struct replay *rp, uint32_t parent, uint64_t clone_ticket, bool exec)
{
	struct replay_stream *s;

	do {
		list_for_each_entry(s, &rp->streams, link)
			if (!s->started && !s->ended && s->parent == parent && (s->how == THREAD_EXEC) == exec &&
			    (exec || s->clone_ticket == clone_ticket))
				return s;
	} while (discover_next(rp));
	return NULL;
}

/* The next ticket in the rest of the block, for order.c. */
static void scan_ticket(struct replay_stream *s)
{
	size_t i = s->pos;

	s->next = 0;
	while (i < s->block.nr) {
		uint64_t w = s->block.words[i];

		if (!(w & WORD_CONTROL)) {
			i++;
			continue;
		}
		switch (word_type(w)) {
		case W_SYSCALL:
		case W_SYSRET:
		case W_EXIT:
		case W_EXEC:
			s->next = s->block.words[i + 1];
			return;
		default:
			i += 1 + word_payload(w);
		}
	}
}

static void passed(struct cpu *c, struct replay_stream *s, uint64_t ticket)
{
	if (s->refs_since >= WORK_STRETCH_REFS)
		s->work[s->nr_work++ % WORK_STRETCHES] = (struct work_stretch){ s->passed, ticket };
	s->refs_since = 0;
	s->passed = MAX(s->passed, ticket);
	if (s->rp->live > 1) {
		scan_ticket(s);
		order_progress(c, s->rp);
	}
}

static bool load_block(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;
	int r;

	if (s->have_block)
		rp->src->ops->put(rp->src, rp->cur, &s->block);
	s->have_block = false;
	s->block = (struct trace_block){ 0 };
	s->pos = 0;
	s->next = 0;
	r = rp->src->ops->next(rp->src, rp->cur, s->nr, &s->block);
	if (r < 0)
		rp->res->damaged = true;
	if (r <= 0)
		return false;
	s->have_block = true;
	replay_account_memory(rp);
	if (rp->live > 1) {
		scan_ticket(s);
		order_progress(c, rp);
	}
	return true;
}

struct cpu *replay_think(struct cpu *c, struct replay_stream *s, uint64_t ns)
{
	struct replay *rp = s->rp;

	rp->res->think_ns += ns;
	rp->sleeping++;
	s->thinking = true;
	order_progress(c, rp);
	c = machine_wait(c, ns);
	s->thinking = false;
	rp->sleeping--;
	return c;
}

/* ---- references ---- */

/* Put the range that covers addr in front of the windows. false: no such range. */
static bool window_refill(struct replay_stream *s, uint64_t addr)
{
	const struct reloc_range *r = s->proc ? reloc_find(&s->proc->map, addr) : NULL;

	if (!r)
		return false;
	if (s->win.nr == REPLAY_WINDOWS)
		s->win.nr--;
	memmove(s->win.w + 1, s->win.w, s->win.nr * sizeof(s->win.w[0]));
	s->win.w[0] = (struct replay_window){ r->start, r->end, r->delta };
	s->win.nr++;
	return true;
}

/*
 * One reference the slow way: the tests' equal of the fast path, and what steps over a reference that cannot be made.
 * Returns 0, or the error of its fault.
 */
static int access_one(struct cpu *c, const struct replay_stream *s, uint64_t w)
{
	uint64_t done, here = word_addr(w);

	for (unsigned i = 0; i < s->win.nr; i++)
		if (here - s->win.w[i].start < s->win.w[i].end - s->win.w[i].start) {
			here += s->win.w[i].delta;
			break;
		}
	return c->m->ops->access_run(c, here, 8, 1, word_size(w), ACCESS_USER | (w & WORD_STORE ? ACCESS_WRITE : 0),
				     word_insns(w), &done);
}

static bool in_window(const struct replay_stream *s, uint64_t addr)
{
	for (unsigned i = 0; i < s->win.nr; i++)
		if (addr - s->win.w[i].start < s->win.w[i].end - s->win.w[i].start)
			return true;
	return false;
}

static size_t replay_generic(struct cpu *c, struct replay_stream *s, size_t nr, int *ret_err)
{
	const uint64_t *w = s->block.words + s->pos;
	size_t i;

	*ret_err = 0;
	for (i = 0; i < nr && !(w[i] & WORD_CONTROL) && in_window(s, word_addr(w[i])) && !c->need_resched; i++) {
		*ret_err = access_one(c, s, w[i]);
		if (*ret_err)
			break;
	}
	return i;
}

static void count_refs(struct replay *rp, const uint64_t *w, size_t n)
{
	uint64_t stores = 0;

	for (size_t i = 0; i < n; i++)
		stores += (w[i] >> 59) & 1;
	rp->res->refs += n;
	rp->res->stores += stores;
	rp->res->loads += n - stores;
	if (rp->o->progress && rp->res->refs - rp->refs_reported >= PROGRESS_REFS) {
		rp->refs_reported = rp->res->refs;
		rp->o->progress(rp->o->progress_arg, rp->res->refs);
	}
}

static bool should_stop(struct replay *rp)
{
	if (rp->o->stop && *rp->o->stop) {
		rp->res->stopped = true;
		rp->m->stop = true;
	}
	return rp->m->stop;
}

/* A reference outside of all areas known so far: another thread may still have to make the area. */
static bool wait_for_area(struct cpu **c, struct replay_stream *s, uint64_t addr)
{
	if (s->proc && s->proc->refs > 1 && s->rp->live > 1)
		*c = order_wait_area(*c, s, addr);
	return window_refill(s, addr);
}

/* Consume references up to the next control word. Returns the CPU that the task is on afterwards. */
static struct cpu *run_refs(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;

	while (s->pos < s->block.nr && !(s->block.words[s->pos] & WORD_CONTROL)) {
		size_t n;
		int e = 0;

		if (s->proc && s->win_gen != s->proc->map.gen) {
			s->win.nr = 0;
			s->win_gen = s->proc->map.gen;
		}
		n = rp->o->generic_access ? replay_generic(c, s, s->block.nr - s->pos, &e) :
					    model_replay(c, s->block.words + s->pos, s->block.nr - s->pos, &s->win, &e);
		count_refs(rp, s->block.words + s->pos, n);
		s->pos += n;
		s->refs_since += n;
		if (c->need_resched) {
			c = machine_resched(c);
			if (should_stop(rp))
				return c;
		}
		if (e) {
			/* The program got a signal here and went on, or memory is gone: step over it. */
			rp->res->refs_failed++;
			if (e == -ENOMEM)
				rp->res->out_of_memory = true;
			s->pos++;
		} else if (n == 0 && s->pos < s->block.nr && !(s->block.words[s->pos] & WORD_CONTROL)) {
			uint64_t addr = word_addr(s->block.words[s->pos]);

			if (!in_window(s, addr) && !window_refill(s, addr) && !wait_for_area(&c, s, addr)) {
				rp->res->refs_unmapped++;
				s->pos++;
			}
		}
	}
	return c;
}

/* ---- control words ---- */

static void on_syscall(struct cpu *c, struct replay_stream *s, uint64_t w, const uint64_t *pay)
{
	s->call = (struct pending_call){ .open = true, .nr = (unsigned)word_arg(w), .ticket = pay[0], .time_ns = pay[7] };
	memcpy(s->call.a, pay + 1, sizeof(s->call.a));
	if (!s->rp->first_time_ns)
		s->rp->first_time_ns = pay[7];
	replay_syscall_enter(c, s);
	passed(c, s, pay[0]);
}

static struct cpu *on_sysret(struct cpu *c, struct replay_stream *s, const uint64_t *pay)
{
	s->rp->last_time_ns = MAX(s->rp->last_time_ns, pay[2]);
	s->next = pay[0];
	c = replay_syscall_exit(c, s, pay[0], (int64_t)pay[1], pay[2]);
	passed(c, s, pay[0]);
	return c;
}

/* The stream goes on as another one (exec under a recorder that starts a new stream). */
static bool continue_as(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;
	struct replay_stream *n = replay_find_child(rp, s->nr, 0, true);

	if (!n)
		return false;
	if (s->have_block)
		rp->src->ops->put(rp->src, rp->cur, &s->block);
	s->block = n->block;
	s->have_block = n->have_block;
	s->pos = n->pos;
	s->nr = n->nr;
	s->passed = MAX(s->passed, n->passed);
	n->have_block = false;
	n->started = n->ended = true;
	if (s->call.open) {
		s->call.open = false;
		machine_leave(c, ENTRY_SYSCALL);
	}
	return true;
}

static void vfork_done(struct cpu *c, struct replay_stream *s, uint64_t ticket)
{
	if (!s->vfork_parent)
		return;
	s->vfork_parent = NULL;
	order_event(c, s->rp, (struct order_key){ ORDER_VFORK, s->nr, 0 }, ticket ? ticket : 1);
}

/* false: the stream has ended. */
static bool on_exit_word(struct cpu *c, struct replay_stream *s, uint64_t w, const uint64_t *pay)
{
	passed(c, s, pay[0]);
	if (word_arg(w) == EXIT_EXEC && continue_as(c, s))
		return true;
	if (s->cleartid && s->proc)
		order_event(c, s->rp, (struct order_key){ ORDER_FUTEX, s->proc->id, s->cleartid }, pay[0]);
	return false;
}

/*
 * The W_EXEC at hand with the words that describe its image, which a block boundary may have cut apart. The caller frees *ret_words.
 * Afterwards s stands at the first word that is not of the image, or has ended.
 */
static int collect_image(struct cpu *c, struct replay_stream *s, uint64_t **ret_words, size_t *ret_nr)
{
	uint64_t *buf = NULL;
	size_t nr = 0, cap = 0;

	do {
		while (s->have_block && s->pos < s->block.nr) {
			const uint64_t *w = s->block.words + s->pos;
			unsigned type = word_type(*w);
			size_t n = 1 + (size_t)word_payload(*w);

			if (!(*w & WORD_CONTROL) || (type == W_EXEC ? nr > 0 : type != W_AREA && type != W_NAME && type != W_NOP))
				goto out;
			if (nr + n > cap) {
				uint64_t *more = realloc(buf, (cap = (nr + n) * 2) * sizeof(*buf));

				if (!more) {
					free(buf);
					return -ENOMEM;
				}
				buf = more;
			}
			memcpy(buf + nr, w, n * sizeof(*w));
			nr += n;
			s->pos += n;
		}
	} while (load_block(c, s));
out:
	*ret_words = buf;
	*ret_nr = nr;
	return 0;
}

static void on_exec(struct cpu *c, struct replay_stream *s)
{
	uint64_t ticket = s->block.words[s->pos + 1], *image;
	size_t nr;
	int e = collect_image(c, s, &image, &nr);

	if (!e) {
		e = replay_exec(c, s, image, nr);
		free(image);
	}
	if (e) {
		if (e == -ENOMEM)
			s->rp->res->out_of_memory = true;
		replay_fail(s->rp, e, "stream %u: a fresh image could not be set up: %s", s->nr, strerror(-e));
		return;
	}
	if (s->call.open) { /* the execve itself never returns */
		s->call.open = false;
		machine_leave(c, ENTRY_SYSCALL);
	}
	vfork_done(c, s, ticket);
	passed(c, s, ticket);
}

/* false: the stream has ended. The task may be on another CPU afterwards. */
static bool control_word(struct cpu **pc, struct replay_stream *s)
{
	struct cpu *c = *pc;
	uint64_t w = s->block.words[s->pos];
	const uint64_t *pay = s->block.words + s->pos + 1;
	struct pending_call *k = &s->call;

	if (word_type(w) == W_EXEC) {
		on_exec(c, s);
		return true;
	}
	s->pos += 1 + word_payload(w);
	switch (word_type(w)) {
	case W_INSNS:
		model_insns(c, word_arg(w));
		break;
	case W_SYSCALL:
		on_syscall(c, s, w, pay);
		break;
	case W_SYSRET:
		*pc = on_sysret(c, s, pay);
		break;
	case W_BUFFER:
		replay_buffer(c, s, word_arg(w) & 1, pay[0], pay[1]);
		break;
	case W_FILE:
		k->has_file = true;
		k->file_dev = pay[0];
		k->file_ino = pay[1];
		k->file_size = pay[2];
		k->file_off = pay[3];
		k->file_kind = (unsigned)pay[4];
		break;
	case W_AREA:
		if (s->proc && replay_area(c, s, w, pay) == -ENOMEM)
			s->rp->res->out_of_memory = true;
		break;
	case W_EXIT:
		return on_exit_word(c, s, w, pay);
	default:
		break;
	}
	return true;
}

/* ---- tasks ---- */

static void end_stream(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;
	bool last = s->proc && s->proc->refs == 1;
	uint64_t pid = s->pid;

	if (s->call.open) {
		s->call.open = false;
		machine_leave(c, ENTRY_SYSCALL);
	}
	if (s->have_block)
		rp->src->ops->put(rp->src, rp->cur, &s->block);
	s->have_block = false;
	vfork_done(c, s, s->passed);
	machine_enter(c, ENTRY_SYSCALL);
	if (s->proc) {
		s->last_proc = s->proc->id;
		process_put(c, rp, s->proc);
	}
	s->proc = NULL;
	machine_leave(c, ENTRY_SYSCALL);
	s->ended = true;
	rp->live--;
	if (last)
		order_event(c, rp, (struct order_key){ ORDER_EXIT, pid, 0 }, s->passed ? s->passed : 1);
	order_progress(c, rp);
}

static void stream_task(struct cpu *c, struct task *t)
{
	struct replay_stream *s = t->arg;
	struct replay *rp = s->rp;

	while (!should_stop(rp)) {
		if (!s->have_block || s->pos >= s->block.nr) {
			if (!load_block(c, s))
				break;
			continue;
		}
		if (s->block.words[s->pos] & WORD_CONTROL) {
			if (!control_word(&c, s))
				break;
		} else {
			c = run_refs(c, s);
		}
		if (c->need_resched)
			c = machine_resched(c);
	}
	end_stream(c, s);
}

static void stream_exit(struct task *t)
{
	struct replay_stream *s = t->arg;

	s->rp->res->cpu_ns += t->cpu_time_ps / PS_PER_NS;
}

int replay_start(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;
	int e;

	s->task = (struct task){ .fn = stream_task, .arg = s, .on_exit = stream_exit, .name = "replay", .mm = s->proc ? s->proc->mm : NULL };
	s->started = true;
	scan_ticket(s);
	rp->live++;
	rp->res->streams++;
	e = c->m->ops->task_start(c, &s->task);
	if (e)
		replay_fail(rp, e, "stream %u: its task could not be started: %s", s->nr, strerror(-e));
	return e;
}

/* ---- one whole recording ---- */

static void cleanup(struct cpu *c, struct replay *rp)
{
	struct replay_stream *s, *ts;
	struct process *p, *tp;

	list_for_each_entry_safe(s, ts, &rp->streams, link) {
		if (s->have_block)
			rp->src->ops->put(rp->src, rp->cur, &s->block);
		free(s);
	}
	list_init(&rp->streams);
	/* Left over only when the run was cut short: nothing runs any more, so they can be torn down here. */
	list_for_each_entry_safe(p, tp, &rp->processes, link) {
		if (p->mm)
			mm_put(c, p->mm);
		reloc_done(&p->map);
		free(p);
	}
	list_init(&rp->processes);
}

static int replay_once(struct replay *rp)
{
	struct cpu *c = model_boot_cpu(rp->m);
	struct replay_stream *first;
	char why[160] = "";
	int e;

	rp->next_unseen = 0;
	e = rp->src->ops->cursor_open(rp->src, &rp->cur);
	if (e) {
		snprintf(rp->err, rp->errlen, "%s: cannot be read: %s", rp->src->name, strerror(-e));
		return e;
	}
	while (discover_next(rp) && list_empty(&rp->streams))
		;
	if (list_empty(&rp->streams)) {
		replay_fail(rp, rp->src->damaged ? -EBADMSG : -ENODATA, "%s: %s", rp->src->name,
			    rp->src->damaged ? rp->src->error : "nothing was recorded in it");
	} else {
		first = list_first_entry(&rp->streams, struct replay_stream, link);
		if (!replay_start(c, first)) {
			e = model_run(rp->m, why, sizeof(why));
			if (e == -EDEADLK)
				replay_fail(rp, e, "%s: no task can go on: %s", rp->src->name, why);
		}
	}
	cleanup(model_boot_cpu(rp->m), rp);
	rp->src->ops->cursor_close(rp->src, rp->cur);
	return rp->error;
}

int replay_run(struct quire *q, struct trace_source *source, const struct replay_options *o, struct replay_result *ret, char *err,
	       size_t errlen)
{
	struct replay rp = { .q = q, .m = q->m, .src = source, .o = o, .res = ret, .err = err, .errlen = errlen };
	uint64_t start_ns = model_elapsed_ns(q->m);
	unsigned repeat = o->repeat ? o->repeat : 1;
	int e;

	*ret = (struct replay_result){ 0 };
	if (errlen)
		err[0] = '\0';
	list_init(&rp.streams);
	list_init(&rp.processes);
	e = order_init(&rp.order);
	if (e) {
		snprintf(err, errlen, "out of memory");
		return e;
	}
	for (unsigned i = 0; i < repeat && !e && !q->m->stop; i++) {
		e = replay_once(&rp);
		ret->recorded_ns += rp.last_time_ns - rp.first_time_ns;
		rp.first_time_ns = rp.last_time_ns = 0;
	}
	ret->elapsed_ns = model_elapsed_ns(q->m) - start_ns;
	ret->damaged |= source->damaged;
	for (size_t i = 0; i < rp.nr_files; i++)
		file_put(model_boot_cpu(q->m), rp.files[i].file);
	free(rp.files);
	order_done(&rp.order);
	return e;
}
