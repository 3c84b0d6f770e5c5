/*
 * The public calls with arguments from anybody, on real memory: address spaces and their forks, pins, accesses, under one of several
 * settings that the first byte chooses. What was stored is read back; when all is let go, no anonymous page is left.
 */
#include "fuzz.h"

#include <quire/quire.h>

#include <errno.h>
#include <string.h>

#define MAP_LOCKED 0x2000
#define MAP_HUGETLB 0x40000 /* what the manager's pool serves, where it has one */
#define SPACES 4
#define PINS 8
#define AREAS 8

#define SETTINGS 3

static struct quire_manager *manager;
static struct quire_thread *thread;

/* The manager of these settings: each stays once it is there, empty between two inputs. */
static void setup(unsigned which)
{
	static const char *const settings[SETTINGS][5] = {
		{ "transparent_hugepage.enabled=always" },
		{ "transparent_hugepage.enabled=madvise", "quire.fork_tables=shared" },
		{ "transparent_hugepage.enabled=always", "quire.fork_tables=shared", "quire.huge_cow=copy", "hugepages-2048kB.nr_hugepages=12" },
	};
	static struct quire_manager *managers[SETTINGS];
	static struct quire_thread *threads[SETTINGS];
	const struct quire_options o = { .memory = 128 << 20, .max_threads = 1, .settings = settings[which] };
	char err[200] = "";

	if (!managers[which]) {
		fuzz_check(!quire_open(&o, &managers[which], err, sizeof(err)), "%s", err);
		fuzz_check(!quire_attach(managers[which], &threads[which]), "not attached");
	}
	manager = managers[which];
	thread = threads[which];
}

struct state {
	struct fuzz_bytes b;
	struct quire_space *space[SPACES];
	struct quire_pin *pin[PINS];
	unsigned char *first[PINS];
	uint64_t area[AREAS];
	unsigned cur;
};

static uint64_t address(struct state *s)
{
	unsigned k = fuzz_u8(&s->b);

	if (k >= 248)
		return fuzz_u64(&s->b, 8);
	return s->area[k % AREAS] + (k & 8 ? fuzz_u64(&s->b, 3) : fuzz_u64(&s->b, 2) << 12);
}

static uint64_t length(struct state *s)
{
	static const uint64_t some[] = { 0, 1, 8, 4096, 8192, 65536, 2 << 20, 4 << 20, 16 << 20, 1ULL << 40, ~0ULL, ~0ULL - 4095 };
	unsigned k = fuzz_u8(&s->b);

	return k >= 240 ? fuzz_u64(&s->b, 3) : some[k % (sizeof(some) / sizeof(some[0]))];
}

static void check_rc(int rc)
{
	fuzz_check(rc <= 0 && rc > -4096, "%d is no errno", rc);
}

static void store_and_load(struct state *s)
{
	unsigned size = fuzz_u8(&s->b) % 10;
	uint64_t at = address(s), v = fuzz_u64(&s->b, 8), got = 0;
	int rc = quire_store(thread, at, size, v);

	check_rc(rc);
	if (rc)
		return;
	fuzz_check(size >= 1 && size <= 8, "a store of %u bytes", size);
	rc = quire_load(thread, at, size, &got);
	if (size < 8)
		v &= (1ULL << (8 * size)) - 1;
	fuzz_check(rc == -EFAULT || (!rc && got == v), "%d: %llx, not %llx", rc, (unsigned long long)got, (unsigned long long)v);
}

static void copy(struct state *s)
{
	static unsigned char buf[65536];
	uint64_t at = address(s);
	size_t len = fuzz_u64(&s->b, 2), done = 0;
	int rc = fuzz_u8(&s->b) & 1 ? quire_read(thread, at, buf, len, &done) : quire_write(thread, at, buf, len, &done);

	check_rc(rc);
	fuzz_check(done <= len && (rc || done == len), "%zu of %zu", done, len);
}

static void pin(struct state *s)
{
	unsigned i = fuzz_u8(&s->b) % PINS;

	if (s->pin[i]) {
		/* The pointer must still be good. */
		if (s->first[i])
			*s->first[i] ^= 0;
		quire_unpin(thread, s->pin[i]);
		s->pin[i] = NULL;
		return;
	}
	int write = fuzz_u8(&s->b) & 1;
	uint64_t at = address(s), len = length(s) & 0x3fffff;
	int rc = quire_pin(thread, at, len, write ? QUIRE_PIN_WRITE : 0, &s->pin[i]);

	check_rc(rc);
	if (rc) {
		s->pin[i] = NULL;
		return;
	}
	uint64_t sum = 0;

	for (size_t k = 0; k < s->pin[i]->nr; k++)
		sum += s->pin[i]->segments[k].len;
	fuzz_check(sum == len, "%llu bytes pinned of %llu", (unsigned long long)sum, (unsigned long long)len);
	s->first[i] = write && s->pin[i]->nr ? s->pin[i]->segments[0].ptr : NULL;
}

static void spaces(struct state *s)
{
	unsigned i = fuzz_u8(&s->b) % SPACES, how = fuzz_u8(&s->b) % 4;

	if (how == 0 && s->space[i]) {
		quire_space_switch(thread, s->space[i]);
		s->cur = i;
	} else if (how == 1 && i && !s->space[i]) {
		check_rc(quire_space_fork(thread, s->space[s->cur], &s->space[i]));
	} else if (how == 2 && i && s->space[i] && i != s->cur) {
		quire_space_put(thread, s->space[i]);
		s->space[i] = NULL;
	} else if (how == 3 && i && !s->space[i]) {
		check_rc(quire_space_create(thread, &s->space[i]));
	}
}

static void step(struct state *s)
{
	static unsigned char vec[65536];
	unsigned what = fuzz_u8(&s->b), k;
	uint64_t a = 0, at, to, len;
	int rc, prot, flags;

	switch (what % 12) {
	case 0:
	case 1:
		k = fuzz_u8(&s->b);
		at = what & 16 ? address(s) : 0;
		len = length(s);
		prot = fuzz_u8(&s->b) & (what & 32 ? 0xff : 7);
		flags = (int)fuzz_u64(&s->b, what & 64 ? 4 : 1) | (what & 128 ? 0 : QUIRE_MAP_PRIVATE) | (k & 4 ? MAP_HUGETLB : 0);
		if (len > 64 << 20)
			flags &= ~(QUIRE_MAP_POPULATE | MAP_LOCKED); /* takes its time, zero pages cost only tables */
		rc = quire_mmap(thread, at, len, prot, flags, &a);
		check_rc(rc);
		if (!rc)
			s->area[k % AREAS] = a;
		break;
	case 2:
		at = address(s);
		check_rc(quire_munmap(thread, at, length(s)));
		break;
	case 3:
		at = address(s);
		len = length(s);
		check_rc(quire_mprotect(thread, at, len, fuzz_u8(&s->b) & (what & 32 ? 0xff : 7)));
		break;
	case 4:
		at = address(s);
		len = length(s);
		a = length(s);
		k = fuzz_u8(&s->b);
		to = address(s);
		if (!quire_mremap(thread, at, len, a, (int)k & 15, to, &a))
			s->area[k % AREAS] = a;
		break;
	case 5:
		at = address(s);
		len = length(s);
		k = fuzz_u8(&s->b) % 30;
		if (len > 64 << 20 && (k == QUIRE_MADV_POPULATE_READ || k == QUIRE_MADV_POPULATE_WRITE))
			break;
		check_rc(quire_madvise(thread, at, len, (int)k));
		break;
	case 6:
		at = address(s);
		len = length(s);
		check_rc(what & 32 && len <= 64 << 20 ? quire_mlock(thread, at, len) : quire_munlock(thread, at, len));
		break;
	case 7:
		at = address(s);
		check_rc(quire_mincore(thread, at, length(s) & ((sizeof(vec) << 12) - 1), vec));
		break;
	case 8:
		copy(s);
		break;
	case 9:
		pin(s);
		break;
	case 10:
		spaces(s);
		break;
	default:
		store_and_load(s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = { .b = { data, size } };
	int64_t left = -1;

	if (size > 8192)
		return 0;
	setup(fuzz_u8(&s.b) % SETTINGS);
	fuzz_check(!quire_space_create(thread, &s.space[0]), "no address space");
	quire_space_switch(thread, s.space[0]);
	while (s.b.left)
		step(&s);
	for (unsigned i = 0; i < PINS; i++)
		if (s.pin[i])
			quire_unpin(thread, s.pin[i]);
	quire_space_switch(thread, NULL);
	for (unsigned i = 0; i < SPACES; i++)
		if (s.space[i])
			quire_space_put(thread, s.space[i]);
	fuzz_check(!quire_counter(manager, "nr_anon_pages", &left) && left == 0, "%lld anonymous pages left over", (long long)left);
	fuzz_check(!quire_counter(manager, "nr_page_table_pages", &left) && left == 0, "%lld page tables left over", (long long)left);
	return 0;
}
