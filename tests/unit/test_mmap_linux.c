/*
 * The same random calls made here and on the Linux kernel underneath, in a window of addresses where nothing else is:
 * results, areas (borders, rights, merging) and resident pages must be the same. Every third sequence forks in the
 * middle and goes on in the child.
 */
#include "vma_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fidelity/fidelity.h"

#define NP 64U
#define NSEQ 400U
#define NSTEP 40U
#define TEXT 1536

enum op { OP_MMAP, OP_MUNMAP, OP_MPROTECT, OP_MREMAP, OP_MADVISE, OP_MLOCK, OP_MUNLOCK, NR_OPS };

struct step {
	enum op op;
	bool skip;
	vaddr_t addr, to;
	uint64_t len, new_len;
	unsigned prot, flags;
	int advice;
	int64_t want, got;
	char want_text[TEXT], got_text[TEXT];
};

static const char *const op_names[NR_OPS] = { "mmap", "munmap", "mprotect", "mremap", "madvise", "mlock", "munlock" };

static void random_mremap(struct step *s, struct rng *r, unsigned at, unsigned n)
{
	unsigned to = (unsigned)rng_below(r, NP), m = 1 + (unsigned)rng_below(r, MIN(12U, NP - to));

	s->new_len = m * PG;
	switch (rng_below(r, 6)) {
	case 0: /* shrink or grow in place */
	case 1:
		s->flags = 0;
		s->new_len = MIN(m, NP - at) * PG;
		break;
	case 2: /* keep the old place */
		s->flags = UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP;
		s->new_len = s->len;
		s->to = WIN + MIN(to, NP - n) * PG;
		break;
	case 3: /* old length 0: duplicates shared memory */
		s->len = 0;
		/* fall through */
	case 4:
		s->flags = UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED;
		s->to = WIN + to * PG;
		break;
	default:
		s->flags = UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED;
		s->new_len = s->len;
		s->to = WIN + MIN(to, NP - n) * PG;
		break;
	}
}

static void random_step(struct step *s, struct rng *r)
{
	static const int advices[] = {
		MADV_NORMAL,
		MADV_RANDOM,
		MADV_SEQUENTIAL,
		MADV_DONTNEED,
		MADV_FREE,
		MADV_DONTFORK,
		MADV_DOFORK,
		MADV_DONTDUMP,
		MADV_DODUMP,
		MADV_WIPEONFORK,
		MADV_KEEPONFORK,
		MADV_NOHUGEPAGE,
		MADV_HUGEPAGE,
		MADV_WILLNEED,
		22,
		23,
		23,
		23,
		23,
		24 /* POPULATE_READ, POPULATE_WRITE, DONTNEED_LOCKED */,
		1234,
	};
	static const unsigned prots[] = { 0, 1, 3, 3, 3, 2, 5, 7 };
	unsigned at = (unsigned)rng_below(r, NP), n = 1 + (unsigned)rng_below(r, MIN(12U, NP - at));

	memset(s, 0, offsetof(struct step, want_text));
	s->op = (enum op[]){
		OP_MMAP,   OP_MMAP,    OP_MMAP,	   OP_MUNMAP,  OP_MPROTECT, OP_MPROTECT, OP_MREMAP,
		OP_MREMAP, OP_MADVISE, OP_MADVISE, OP_MADVISE, OP_MADVISE,  OP_MLOCK,	 OP_MUNLOCK
	}[rng_below(r, 14)];
	s->addr = WIN + at * PG;
	s->len = n * PG;
	s->prot = prots[rng_below(r, ARRAY_SIZE(prots))];
	if (!rng_below(r, 30))
		s->addr += 8;
	if (!rng_below(r, 30))
		s->len = (uint64_t[]){ 0, 1, 4097, ~0ULL, 1ULL << 62 }[rng_below(r, 5)];
	switch (s->op) {
	case OP_MMAP:
		s->flags = (rng_below(r, 8) ? MAP_FIXED : 0) | MAP_ANONYMOUS |
			   (rng_below(r, 8) ? MAP_PRIVATE : MAP_SHARED);
		if (!rng_below(r, 8))
			s->flags |= UAPI_MAP_FIXED_NOREPLACE;
		if (!rng_below(r, 8))
			s->flags |= MAP_NORESERVE;
		if (!rng_below(r, 8))
			s->flags |= MAP_POPULATE;
		if (!rng_below(r, 12))
			s->flags |= MAP_LOCKED;
		break;
	case OP_MPROTECT:
		if (!rng_below(r, 20))
			s->prot |= (unsigned[]){ 8, 16, PROT_GROWSDOWN, PROT_GROWSUP }[rng_below(r, 4)];
		if (s->len == 1ULL << 62)
			s->len = PG; /* with PROT_GROWSDOWN it would find the test program's areas */
		break;
	case OP_MREMAP:
		random_mremap(s, r, at, n);
		break;
	case OP_MADVISE:
		if (s->len == 1ULL << 62)
			s->len = PG; /* holes do not stop it: it would reach the test program itself */
		s->advice = advices[rng_below(r, ARRAY_SIZE(advices))];
		break;
	default:
		break;
	}
}

/* A hint that was not taken: the place is then another one here and there. Undone, and left out there. */
static bool went_elsewhere(struct world *w, const struct step *s)
{
	if (s->op != OP_MMAP || (s->flags & (MAP_FIXED | UAPI_MAP_FIXED_NOREPLACE)) || s->want <= 0 ||
	    s->want == (int64_t)(s->addr & PAGE_MASK))
		return false;
	mm_munmap(w->c, w->mm, (vaddr_t)s->want, s->len);
	return true;
}

static int64_t step_here(struct world *w, const struct step *s)
{
	switch (s->op) {
	case OP_MMAP:
		return mm_mmap(w->c, w->mm, s->addr, s->len, s->prot, s->flags, NULL, 0);
	case OP_MUNMAP:
		return mm_munmap(w->c, w->mm, s->addr, s->len);
	case OP_MPROTECT:
		return mm_mprotect(w->c, w->mm, s->addr, s->len, s->prot);
	case OP_MREMAP:
		return mm_mremap(w->c, w->mm, s->addr, s->len, s->new_len, s->flags, s->to);
	case OP_MADVISE:
		return mm_madvise(w->c, w->mm, s->addr, s->len, s->advice);
	case OP_MLOCK:
		return mm_mlock(w->c, w->mm, s->addr, s->len, false);
	default:
		return mm_munlock(w->c, w->mm, s->addr, s->len);
	}
}

static int64_t step_kernel(const struct step *s)
{
	long r;

	switch (s->op) {
	case OP_MMAP:
		r = syscall(SYS_mmap, s->addr, s->len, s->prot, s->flags, -1, 0);
		break;
	case OP_MUNMAP:
		r = syscall(SYS_munmap, s->addr, s->len);
		break;
	case OP_MPROTECT:
		r = syscall(SYS_mprotect, s->addr, s->len, s->prot);
		break;
	case OP_MREMAP:
		r = syscall(SYS_mremap, s->addr, s->len, s->new_len, s->flags, s->to);
		break;
	case OP_MADVISE:
		r = syscall(SYS_madvise, s->addr, s->len, s->advice);
		break;
	case OP_MLOCK:
		r = syscall(SYS_mlock, s->addr, s->len);
		break;
	default:
		r = syscall(SYS_munlock, s->addr, s->len);
		break;
	}
	return r == -1 ? -errno : r;
}

static void text_area(char *buf, size_t *n, uint64_t start, uint64_t end, const char *perms)
{
	*n += (size_t)snprintf(buf + *n, TEXT - NP - 1 - *n, "%llu-%llu%s ", (unsigned long long)(start - WIN) >> 12,
			       (unsigned long long)(end - WIN) >> 12, perms);
}

static void text_here(struct world *w, char *buf)
{
	size_t n = 0;
	uint8_t in;

	for (struct vma *v = vma_first(w->mm); v; v = vma_next(v)) {
		char perms[5] = "---p";

		if (v->flags & VM_READ)
			perms[0] = 'r';
		if (v->flags & VM_WRITE)
			perms[1] = 'w';
		if (v->flags & VM_EXEC)
			perms[2] = 'x';
		if (v->flags & VM_SHARED)
			perms[3] = 's';
		text_area(buf, &n, v->start, v->end, perms);
	}
	for (unsigned i = 0; i < NP; i++)
		buf[n++] = mm_mincore(w->c, w->mm, WIN + i * PG, PG, &in) ? '.' : in & 1 ? '+' : '-';
	buf[n] = '\0';
}

/* Reads /proc/self/maps without a library that could map memory meanwhile. */
static bool text_kernel(char *buf)
{
	static char maps[1 << 18];
	size_t len = 0, n = 0;
	int fd = open("/proc/self/maps", O_RDONLY);
	ssize_t got;
	unsigned char in;

	if (fd < 0)
		return false;
	while (len < sizeof(maps) - 1 && (got = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += (size_t)got;
	close(fd);
	maps[len] = '\0';
	for (char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		unsigned long long start, end;
		char perms[8];

		if (sscanf(line, "%llx-%llx %4s", &start, &end, perms) == 3 && end > WIN && start < WIN + (NP + 2) * PG)
			text_area(buf, &n, start, end, perms);
	}
	for (unsigned i = 0; i < NP; i++)
		buf[n++] = syscall(SYS_mincore, WIN + i * PG, PG, &in) ? '.' : in & 1 ? '+' : '-';
	buf[n] = '\0';
	return true;
}

/* Some sequences fork in the middle and go on in the child. */
static bool forks_at(unsigned q, unsigned i)
{
	return q % 3 == 0 && i == NSTEP / 2;
}

static void kernel_sequence(struct step *steps, unsigned q)
{
	int status = 0;
	pid_t pid = 0;

	syscall(SYS_munmap, WIN, (NP + 2) * PG);
	for (unsigned i = 0; i < NSTEP; i++) {
		struct step *s = &steps[q * NSTEP + i];

		if (forks_at(q, i) && (pid = fork()) != 0) {
			if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
				_exit(3);
			return;
		}
		if (s->skip)
			continue;
		s->got = step_kernel(s);
		if (!text_kernel(s->got_text))
			_exit(2);
	}
	if (q % 3 == 0)
		_exit(0);
}

static void kernel_child(struct step *steps)
{
	for (unsigned q = 0; q < NSEQ; q++)
		kernel_sequence(steps, q);
	_exit(0);
}

/* The merging rules are those since 6.16. */
static bool kernel_comparable(void)
{
	unsigned major, minor;
	struct utsname u;
	void *p;

#if defined(__SANITIZE_THREAD__)
	print_message("skipped: ThreadSanitizer ends a program that maps where these scripts do\n");
	return false;
#endif
	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 16)) {
		print_message("skipped: kernel %s is older than 6.16, whose merging rules these are\n", u.release);
		return false;
	}
	p = mmap((void *)(uintptr_t)(WIN - PG), (NP + 3) * PG, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | UAPI_MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED || access("/proc/self/maps", R_OK)) {
		print_message("skipped: the window is taken or /proc is not readable\n");
		return false;
	}
	munmap(p, (NP + 3) * PG);
	return true;
}

/* The task goes on with another address space. */
static void switch_to(struct world *w, struct mm *mm)
{
	w->mm = mm;
	w->task.mm = mm;
	mm_activate(w->c, mm);
}

static void run_here(struct step *steps)
{
	struct fidelity_kernel kernel;
	struct mm *parent, *child;
	char err[300];
	struct knobs k;
	struct world w;
	struct rng r;

	/* What a fork copies goes by it: nothing of an area where only shared zeroes are mapped. */
	if (fidelity_kernel_read(&kernel, err, sizeof(err)))
		fail_msg("%s", err);
	knobs_default(&k);
	k.zero_page = kernel.knobs.zero_page;
	world_up(&w, &k);
	rng_init(&r, test_seed(11), "kernel");
	for (unsigned q = 0; q < NSEQ; q++) {
		mm_munmap(w.c, w.mm, WIN, (NP + 2) * PG);
		parent = w.mm;
		for (unsigned i = 0; i < NSTEP; i++) {
			struct step *s = &steps[q * NSTEP + i];

			if (forks_at(q, i)) {
				assert_int_equal(mm_fork(w.c, w.mm, &child), 0);
				switch_to(&w, child);
				world_check(&w);
			}

			random_step(s, &r);
			s->want = step_here(&w, s);
			world_check(&w);
			s->skip = went_elsewhere(&w, s);
			text_here(&w, s->want_text);
		}
		if (mm_validate(w.mm))
			fail_msg("sequence %u: %s", q, w.q->err);
		if (w.mm != parent) {
			child = w.mm;
			switch_to(&w, parent);
			mm_put(w.c, child);
		}
	}
	world_down(&w);
}

static void same_as_linux(void **state)
{
	struct step *steps;
	int status;
	pid_t pid;

	(void)state;
	if (!kernel_comparable())
		skip();
	steps = mmap(NULL, sizeof(*steps) * NSEQ * NSTEP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(steps != MAP_FAILED);
	run_here(steps);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		kernel_child(steps);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("the child ended with %#x", (unsigned)status);
	for (unsigned i = 0; i < NSEQ * NSTEP; i++) {
		const struct step *s = &steps[i];

		if (s->skip || (s->want == s->got && !strcmp(s->want_text, s->got_text)))
			continue;
		fail_msg("QUIRE_SEED=%llu sequence %u step %u: %s(%#llx, %#llx, new %#llx, prot %#x, flags %#x, to "
			 "%#llx, advice %d)\n"
			 "  quire %lld  %s\n  linux %lld  %s\n  before %s",
			 (unsigned long long)test_seed(11), i / NSTEP, i % NSTEP, op_names[s->op],
			 (unsigned long long)s->addr, (unsigned long long)s->len, (unsigned long long)s->new_len,
			 s->prot, s->flags, (unsigned long long)s->to, s->advice, (long long)s->want, s->want_text,
			 (long long)s->got, s->got_text, i % NSTEP ? s[-1].skip ? s[-2].got_text : s[-1].got_text : "");
	}
	munmap(steps, sizeof(*steps) * NSEQ * NSTEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_as_linux),
	};

	return test_run(tests);
}
