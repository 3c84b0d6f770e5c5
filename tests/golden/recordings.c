/*
 * Recordings made by hand for the golden tables: one a function, each about one thing that programs do with memory.
 * recordings DIR writes DIR/NAME.qtr for each and prints the names. They are the same bytes every time.
 */
#include "base/compiler.h"
#include "base/rng.h"
#include "trace/word.h"
#include "trace/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ULL
#define MIB (1ULL << 20)
#define EXE 0x4000000000ULL
#define BREAK (EXE + 0x7000)
#define STACK_TOP 0x4000900000ULL
#define ANON 0x4010000000ULL
#define FUTEX (EXE + 0x5000) /* a word in the executable's data */
#define BLOCK_WORDS 400	     /* small blocks: several of them even here */
#define MAX_STREAMS 16
#define CLONE_THREAD_FLAGS 0x3d0f00ULL
#define CLONE_FORK_FLAGS 0x1200011ULL

enum { NR_read = 0, NR_write = 1, NR_mmap = 9, NR_mprotect = 10, NR_munmap = 11, NR_brk = 12, NR_mremap = 25, NR_madvise = 28,
       NR_clone = 56, NR_vfork = 58, NR_execve = 59, NR_wait4 = 61, NR_mlock = 149, NR_munlock = 150, NR_futex = 202,
       NR_clock_nanosleep = 230 };

struct recording {
	struct trace_writer *w;
	uint64_t words[MAX_STREAMS][BLOCK_WORDS + 256];
	size_t nr[MAX_STREAMS];
	uint64_t ticket, now_ns;
	int error;
};

static void flush(struct recording *r, unsigned st)
{
	if (r->nr[st] && !r->error)
		r->error = trace_writer_block(r->w, st, r->words[st], r->nr[st]);
	r->nr[st] = 0;
}

static void put(struct recording *r, unsigned st, uint64_t w)
{
	if (r->nr[st] >= BLOCK_WORDS)
		flush(r, st);
	r->words[st][r->nr[st]++] = w;
}

static void control(struct recording *r, unsigned st, enum word_type t, uint64_t arg, unsigned n, const uint64_t *payload)
{
	put(r, st, word_control(t, n, arg));
	memcpy(&r->words[st][r->nr[st]], payload, n * sizeof(*payload));
	r->nr[st] += n;
}

#define CONTROL(r, st, type, arg, ...)                                                                                 \
	control(r, st, type, (uint64_t)(arg), sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

/* ---- what programs do ---- */

static uint64_t enter(struct recording *r, unsigned st, unsigned nr, const uint64_t a[6])
{
	uint64_t t = ++r->ticket;

	CONTROL(r, st, W_SYSCALL, nr, t, a[0], a[1], a[2], a[3], a[4], a[5], r->now_ns);
	return t;
}

static void leave(struct recording *r, unsigned st, unsigned nr, uint64_t ret, uint64_t took_ns)
{
	r->now_ns += took_ns;
	CONTROL(r, st, W_SYSRET, nr, ++r->ticket, ret, r->now_ns, 0);
}

#define ENTER(r, st, nr, ...) enter(r, st, nr, (const uint64_t[6]){ __VA_ARGS__ })

#define CALL(r, st, nr, ret, ...)                                                                                      \
	do {                                                                                                           \
		ENTER(r, st, nr, __VA_ARGS__);                                                                         \
		leave(r, st, nr, (uint64_t)(ret), 1000);                                                               \
	} while (0)

static void anon(struct recording *r, unsigned st, uint64_t at, uint64_t len)
{
	CALL(r, st, NR_mmap, at, 0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0);
}

/* One reference in each `stride` bytes. */
static void touch(struct recording *r, unsigned st, uint64_t at, uint64_t len, uint64_t stride, int store)
{
	for (uint64_t o = 0; o < len; o += stride)
		put(r, st, word_ref(at + o + o / stride % (MIN(stride, 512ULL) / 8) * 8, 3, store, 4));
}

static void compute(struct recording *r, unsigned st, uint64_t insns)
{
	put(r, st, word_control(W_INSNS, 0, insns));
}

static void thread(struct recording *r, unsigned st, uint64_t pid, uint64_t tid, uint64_t parent, uint64_t clone_ticket,
		   uint64_t flags, enum thread_how how)
{
	CONTROL(r, st, W_THREAD, st, ++r->ticket, pid, tid, parent, clone_ticket, flags, how);
}

static void image(struct recording *r, unsigned st)
{
	CONTROL(r, st, W_EXEC, 0, ++r->ticket, BREAK, STACK_TOP - 64);
	CONTROL(r, st, W_NAME, 6, 0x6e6564646c6fULL);
	CONTROL(r, st, W_AREA, AREA_EXE, EXE, 0x4000, PROT_READ | PROT_EXEC, 1, 77, 0, 0x7000);
	CONTROL(r, st, W_AREA, AREA_EXE, EXE + 0x4000, 0x3000, PROT_READ | PROT_WRITE, 1, 77, 0x4000, 0x7000);
	CONTROL(r, st, W_AREA, AREA_STACK, STACK_TOP - 8 * MIB, 8 * MIB, PROT_READ | PROT_WRITE, 0, 0, 0, 0);
	touch(r, st, EXE, 0x4000, 1024, 0);
	touch(r, st, EXE + 0x4000, 0x3000, 512, 1);
	touch(r, st, STACK_TOP - 4 * PAGE, 4 * PAGE, 256, 1);
}

static void end(struct recording *r, unsigned st, enum exit_how how)
{
	CONTROL(r, st, W_EXIT, how, ++r->ticket, 0);
	flush(r, st);
}

/* A thread of the first process, recorded as stream st. */
static void clone_thread(struct recording *r, unsigned st, uint64_t cleartid)
{
	uint64_t t = ENTER(r, 0, NR_clone, CLONE_THREAD_FLAGS, 0, 0, cleartid, 0, 0);

	thread(r, st, 100, 100 + st, 0, t, CLONE_THREAD_FLAGS, THREAD_CLONE);
	leave(r, 0, NR_clone, 100 + st, 1000);
}

static void fork_child(struct recording *r, unsigned parent, unsigned st)
{
	uint64_t t = ENTER(r, parent, NR_clone, CLONE_FORK_FLAGS, 0, 0, 0, 0, 0);

	thread(r, st, 100 + st, 100 + st, parent, t, CLONE_FORK_FLAGS, THREAD_FORK);
	leave(r, parent, NR_clone, 100 + st, 1000);
}

static void wait_child(struct recording *r, unsigned parent, unsigned st)
{
	CALL(r, parent, NR_wait4, 100 + st, 100 + st, 0, 0, 0, 0, 0);
}

static void futex_wait(struct recording *r, unsigned st, uint64_t word)
{
	ENTER(r, st, NR_futex, word, 0x80, 0, 0, 0, 0);
}

static void futex_wake(struct recording *r, unsigned st, uint64_t word, uint64_t woken)
{
	CALL(r, st, NR_futex, woken, word, 0x81, 1, 0, 0, 0);
}

/* ---- the recordings ---- */

static void random_refs(struct recording *r)
{
	struct rng g;

	rng_init(&g, 1, "golden");
	anon(r, 0, ANON, 32 * MIB);
	for (int i = 0; i < 60000; i++)
		put(r, 0, word_ref(ANON + rng_below(&g, 32 * MIB - 64), (unsigned)rng_below(&g, 7), rng_below(&g, 3) == 0,
				   1 + rng_below(&g, 30)));
}

/* The child writes half of what it shares, a grandchild reads; when they are gone the parent writes it all again. */
static void fork_cow(struct recording *r)
{
	anon(r, 0, ANON, 6 * MIB);
	touch(r, 0, ANON, 6 * MIB, PAGE, 1);
	fork_child(r, 0, 1);
	touch(r, 1, ANON, 3 * MIB, PAGE, 1);
	fork_child(r, 1, 2);
	touch(r, 2, ANON, 6 * MIB, PAGE, 0);
	touch(r, 2, ANON + MIB, 64 * PAGE, PAGE, 1);
	end(r, 2, EXIT_PROCESS);
	wait_child(r, 1, 2);
	touch(r, 1, ANON, MIB, PAGE, 1);
	end(r, 1, EXIT_PROCESS);
	touch(r, 0, ANON + 4 * MIB, 2 * MIB, PAGE, 1); /* while the child has it */
	wait_child(r, 0, 1);
	touch(r, 0, ANON, 6 * MIB, PAGE, 1);
}

/* Four threads: each works on its own memory and on what all share, one unmaps and protects under the others' feet. */
static void threads(struct recording *r)
{
	anon(r, 0, ANON, 16 * MIB);
	for (unsigned t = 1; t <= 3; t++)
		clone_thread(r, t, FUTEX + 64 * t);
	for (unsigned t = 1; t <= 3; t++) {
		touch(r, t, ANON + t * 4 * MIB, 4 * MIB, PAGE, 1);
		touch(r, t, ANON, 2 * MIB, PAGE, t != 3);
		futex_wait(r, t, FUTEX);
	}
	compute(r, 0, 20000000);
	touch(r, 0, ANON, 4 * MIB, PAGE, 1);
	for (unsigned t = 1; t <= 3; t++) {
		futex_wake(r, 0, FUTEX, 1);
		leave(r, t, NR_futex, 0, 3000000);
	}
	for (unsigned t = 1; t <= 3; t++)
		for (unsigned k = 0; k < 8; k++) {
			touch(r, t, ANON + 2 * MIB, MIB, 2 * PAGE, k & 1);
			compute(r, t, 30000);
		}
	CALL(r, 0, NR_mprotect, 0, ANON, MIB, PROT_READ, 0, 0, 0);
	CALL(r, 0, NR_mprotect, 0, ANON + 64 * PAGE, 16 * PAGE, PROT_READ | PROT_WRITE, 0, 0, 0);
	CALL(r, 0, NR_madvise, 0, ANON + MIB, MIB / 2, MADV_DONTNEED, 0, 0, 0);
	for (unsigned t = 1; t <= 3; t++) {
		touch(r, t, ANON + 64 * PAGE, 16 * PAGE, PAGE, 1);
		end(r, t, EXIT_THREAD);
		futex_wait(r, 0, FUTEX + 64 * t);
		leave(r, 0, NR_futex, 0, 100000);
	}
	CALL(r, 0, NR_munmap, 0, ANON, 8 * MIB, 0, 0, 0, 0);
}

/* A borrowed address space, a new image in the child, and an exec of the first process itself at the end. */
static void vfork_exec(struct recording *r)
{
	uint64_t t;

	anon(r, 0, ANON, MIB);
	touch(r, 0, ANON, MIB, PAGE, 1);
	t = ENTER(r, 0, NR_vfork, 0, 0, 0, 0, 0, 0);
	thread(r, 1, 101, 101, 0, t, 0, THREAD_VFORK);
	touch(r, 1, ANON, 32 * PAGE, PAGE, 1);
	t = ENTER(r, 1, NR_execve, EXE, 0, 0, 0, 0, 0);
	end(r, 1, EXIT_EXEC);
	thread(r, 2, 101, 101, 1, t, 0, THREAD_EXEC);
	image(r, 2);
	leave(r, 0, NR_vfork, 101, 500000);
	anon(r, 2, ANON, 4 * MIB);
	touch(r, 2, ANON, 4 * MIB, PAGE, 1);
	end(r, 2, EXIT_PROCESS);
	CALL(r, 0, NR_wait4, 101, 101, 0, 0, 0, 0, 0);
	touch(r, 0, ANON, MIB, PAGE, 0);
	t = ENTER(r, 0, NR_execve, EXE, 0, 0, 0, 0, 0);
	end(r, 0, EXIT_EXEC);
	thread(r, 3, 100, 100, 0, t, 0, THREAD_EXEC);
	image(r, 3);
	touch(r, 3, EXE + 0x4000, 0x3000, 64, 1);
	end(r, 3, EXIT_PROCESS);
}

/* An allocator on the break: grown, refused, carried on with mmap, trimmed at both kinds of end, grown again. */
static void brk_refused(struct recording *r)
{
	uint64_t b = BREAK;

	CALL(r, 0, NR_brk, b, 0, 0, 0, 0, 0, 0);
	for (unsigned i = 1; i <= 24; i++) {
		b += 33 * PAGE;
		CALL(r, 0, NR_brk, b, b, 0, 0, 0, 0, 0);
		touch(r, 0, b - 33 * PAGE, 33 * PAGE, PAGE, 1);
	}
	CALL(r, 0, NR_brk, b, b + 4 * MIB, 0, 0, 0, 0, 0); /* refused */
	anon(r, 0, ANON, 4 * MIB);
	touch(r, 0, ANON, 4 * MIB, PAGE, 1);
	CALL(r, 0, NR_munmap, 0, ANON + 3 * MIB, MIB, 0, 0, 0, 0);
	touch(r, 0, ANON, 3 * MIB, 2 * PAGE, 0);
	CALL(r, 0, NR_munmap, 0, ANON, 3 * MIB, 0, 0, 0, 0);
	CALL(r, 0, NR_brk, b - MIB, b - MIB, 0, 0, 0, 0, 0);
	CALL(r, 0, NR_brk, b, b, 0, 0, 0, 0, 0);
	touch(r, 0, b - MIB, MIB, PAGE, 1);
}

/* Grown in place, moved, cut, moved onto something, moved with the old place left. */
static void mremap_all(struct recording *r)
{
	uint64_t to = ANON + 256 * MIB;

	anon(r, 0, ANON, 4 * MIB);
	touch(r, 0, ANON, 4 * MIB, PAGE, 1);
	CALL(r, 0, NR_mremap, to, ANON, 4 * MIB, 10 * MIB, 1, 0, 0);
	touch(r, 0, to, 10 * MIB, PAGE, 0);
	touch(r, 0, to + 4 * MIB, 2 * MIB, PAGE, 1);
	CALL(r, 0, NR_mremap, to, to, 10 * MIB, 5 * MIB, 0, 0, 0);
	touch(r, 0, to, 5 * MIB, PAGE, 1);
	anon(r, 0, ANON, 6 * MIB);
	touch(r, 0, ANON, 6 * MIB, PAGE, 1);
	CALL(r, 0, NR_mremap, ANON + MIB, to + MIB, 2 * MIB, 2 * MIB, 3, ANON + MIB, 0); /* MREMAP_FIXED */
	touch(r, 0, ANON, 6 * MIB, PAGE, 0);
	CALL(r, 0, NR_mremap, ANON + 64 * MIB, ANON + 4 * MIB, 2 * MIB, 2 * MIB, 5, 0, 0); /* MREMAP_DONTUNMAP */
	touch(r, 0, ANON + 64 * MIB, 2 * MIB, PAGE, 1);
	touch(r, 0, ANON + 4 * MIB, 2 * MIB, 2 * PAGE, 1);
}

static void madvise_all(struct recording *r)
{
	anon(r, 0, ANON, 16 * MIB);
	CALL(r, 0, NR_madvise, 0, ANON, 4 * MIB, MADV_NOHUGEPAGE, 0, 0, 0);
	CALL(r, 0, NR_madvise, 0, ANON + 4 * MIB, 4 * MIB, MADV_HUGEPAGE, 0, 0, 0);
	touch(r, 0, ANON, 12 * MIB, PAGE, 1);
	CALL(r, 0, NR_madvise, 0, ANON + MIB, 2 * MIB, MADV_DONTNEED, 0, 0, 0);
	CALL(r, 0, NR_madvise, 0, ANON + 4 * MIB, 2 * MIB, MADV_DONTNEED, 0, 0, 0);
	CALL(r, 0, NR_madvise, 0, ANON + 6 * MIB + 64 * PAGE, 64 * PAGE, MADV_DONTNEED, 0, 0, 0);
	touch(r, 0, ANON, 8 * MIB, PAGE, 1);
	CALL(r, 0, NR_madvise, 0, ANON + 8 * MIB, 2 * MIB, MADV_FREE, 0, 0, 0);
	touch(r, 0, ANON + 8 * MIB, MIB, PAGE, 1);
	CALL(r, 0, NR_madvise, 0, ANON + 12 * MIB, 2 * MIB, 23, 0, 0, 0); /* MADV_POPULATE_WRITE */
	CALL(r, 0, NR_madvise, 0, ANON + 14 * MIB, MIB, 22, 0, 0, 0);	  /* MADV_POPULATE_READ */
	CALL(r, 0, NR_madvise, 0, ANON, MIB, MADV_DONTFORK, 0, 0, 0);
	CALL(r, 0, NR_mlock, 0, ANON + 2 * MIB, MIB, 0, 0, 0, 0);
	CALL(r, 0, NR_munlock, 0, ANON + 2 * MIB, MIB / 2, 0, 0, 0, 0);
	CALL(r, 0, NR_mprotect, 0, ANON + 10 * MIB, 16 * PAGE, PROT_NONE, 0, 0, 0);
	CALL(r, 0, NR_mprotect, 0, ANON + 10 * MIB, 16 * PAGE, PROT_READ | PROT_WRITE, 0, 0, 0);
	touch(r, 0, ANON + 10 * MIB, 32 * PAGE, PAGE, 1);
	fork_child(r, 0, 1);
	touch(r, 1, ANON + 2 * MIB, MIB, PAGE, 1);
	end(r, 1, EXIT_PROCESS);
	wait_child(r, 0, 1);
}

static void file_word(struct recording *r, unsigned st, uint64_t ino, uint64_t size, uint64_t off, enum file_kind kind)
{
	CONTROL(r, st, W_FILE, 0, 1, ino, size, off, kind);
}

static void map_file(struct recording *r, uint64_t at, uint64_t len, uint64_t prot, uint64_t flags, uint64_t ino, uint64_t off)
{
	ENTER(r, 0, NR_mmap, 0, len, prot, flags, 3, off);
	file_word(r, 0, ino, 3 * MIB, off, FILE_REGULAR);
	leave(r, 0, NR_mmap, at, 1000);
}

/* Read into fresh memory, written out, mapped privately and shared, read by two processes. */
static void files(struct recording *r)
{
	anon(r, 0, ANON, 4 * MIB);
	ENTER(r, 0, NR_read, 3, ANON, 3 * MIB, 0, 0, 0);
	file_word(r, 0, 500, 3 * MIB, 0, FILE_REGULAR);
	CONTROL(r, 0, W_BUFFER, 1, ANON, 3 * MIB);
	leave(r, 0, NR_read, 3 * MIB, 1000000);
	ENTER(r, 0, NR_write, 4, ANON, MIB, 0, 0, 0);
	file_word(r, 0, 501, MIB, 0, FILE_REGULAR);
	CONTROL(r, 0, W_BUFFER, 0, ANON, MIB);
	leave(r, 0, NR_write, MIB, 200000);
	map_file(r, ANON + 64 * MIB, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, 500, MIB);
	touch(r, 0, ANON + 64 * MIB, 2 * MIB, PAGE, 0);
	touch(r, 0, ANON + 64 * MIB, MIB, 2 * PAGE, 1);
	map_file(r, ANON + 128 * MIB, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, 502, 0);
	touch(r, 0, ANON + 128 * MIB, MIB / 2, PAGE, 1);
	fork_child(r, 0, 1);
	touch(r, 1, ANON + 128 * MIB, MIB, PAGE, 1);
	touch(r, 1, ANON + 64 * MIB, MIB, PAGE, 1);
	end(r, 1, EXIT_PROCESS);
	wait_child(r, 0, 1);
	CALL(r, 0, NR_munmap, 0, ANON + 64 * MIB, 2 * MIB, 0, 0, 0, 0);
	CALL(r, 0, NR_clock_nanosleep, 0, 0, 0, 0, 0, 0, 0);
}

/* Calls drawn at random on a few areas: what nobody would think of writing by hand. */
static void calls(struct recording *r)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, 22, 23, MADV_DONTFORK, MADV_DOFORK };
	struct rng g;
	unsigned children = 0;

	rng_init(&g, 2, "golden calls");
	for (uint64_t i = 0; i < 6; i++)
		anon(r, 0, ANON + i * 16 * MIB, 8 * MIB);
	for (int i = 0; i < 400; i++) {
		uint64_t at = ANON + rng_below(&g, 6) * 16 * MIB + rng_below(&g, 2000) * PAGE;
		uint64_t len = (1 + rng_below(&g, rng_below(&g, 4) ? 20 : 2048)) * PAGE;

		switch (rng_below(&g, 9)) {
		case 0:
			CALL(r, 0, NR_munmap, 0, at, len, 0, 0, 0, 0);
			break;
		case 1:
		case 5: /* fills holes again */
			CALL(r, 0, NR_mmap, at, at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ULL, 0);
			break;
		case 2:
			CALL(r, 0, NR_mprotect, 0, at, len, rng_below(&g, 2) ? PROT_READ : PROT_READ | PROT_WRITE, 0, 0, 0);
			break;
		case 3:
			CALL(r, 0, NR_madvise, 0, at, len, (uint64_t)advice[rng_below(&g, ARRAY_SIZE(advice))], 0, 0, 0);
			break;
		case 4:
			if (children + 1 < MAX_STREAMS && rng_below(&g, 4) == 0) {
				fork_child(r, 0, ++children);
				touch(r, children, at, len, PAGE, 1);
				end(r, children, EXIT_PROCESS);
				wait_child(r, 0, children);
			}
			break;
		default:
			touch(r, 0, at, len, PAGE, (int)rng_below(&g, 2));
		}
	}
}

static const struct {
	const char *name;
	void (*make)(struct recording *r);
} recordings[] = {
	{ "random_refs", random_refs }, { "fork_cow", fork_cow },	{ "threads", threads },
	{ "vfork_exec", vfork_exec },	{ "brk_refused", brk_refused }, { "mremap", mremap_all },
	{ "madvise", madvise_all },	{ "files", files },		{ "calls", calls },
};

static int make(struct recording *r, const char *dir, size_t i)
{
	const struct trace_meta meta = { .command = recordings[i].name, .recorder = "golden", .start_unix_ns = 1 };
	char path[4096], err[256] = "";

	*r = (struct recording){ .now_ns = 1000000 };
	snprintf(path, sizeof(path), "%s/%s.qtr", dir, recordings[i].name);
	if (trace_writer_create(path, &meta, &r->w, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	thread(r, 0, 100, 100, ~0ULL, 0, 0, THREAD_FIRST);
	image(r, 0);
	recordings[i].make(r);
	if (recordings[i].make != vfork_exec) /* whose first stream ended in an exec */
		end(r, 0, EXIT_PROCESS);
	if (trace_writer_close(r->w, err, sizeof(err)) || r->error) {
		fprintf(stderr, "%s: %s\n", path, err[0] ? err : strerror(-r->error));
		return 1;
	}
	puts(recordings[i].name);
	return 0;
}

int main(int argc, char **argv)
{
	struct recording *r = malloc(sizeof(*r));
	int rc = 0;

	if (argc != 2 || !r) {
		fprintf(stderr, "usage: recordings DIR\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(recordings) && !rc; i++)
		rc = make(r, argv[1], i);
	free(r);
	return rc;
}
