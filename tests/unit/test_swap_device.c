/* The swap devices of the machines: contents move, times and queueing on the model, a real file on the host, failures on demand. */
#include "testing.h"

#include "machine/host/host.h"
#include "machine/inject.h"
#include "machine/null.h"
#include "tiny_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NR 200U

static struct machine *model_with_swap(uint64_t bytes)
{
	struct machine_desc d = tiny_desc(1, 2);
	struct machine *m;
	char err[200] = "";

	d.swap.size = bytes;
	if (model_create(&d, NULL, &m, err, sizeof(err)))
		fail_msg("%s", err);
	return m;
}

static uint64_t first_word(const struct machine *m, pfn_t p)
{
	return m->tags ? m->tags[p.v] : *(uint64_t *)machine_ptr(m, pfn_to_paddr(p));
}

static void set_first_word(struct machine *m, pfn_t p, uint64_t v)
{
	if (m->tags)
		m->tags[p.v] = v;
	else
		*(uint64_t *)machine_ptr(m, pfn_to_paddr(p)) = v;
}

/* Out in another order than the frames', over all slots up to the last, and back into other frames. */
static void move_contents(struct machine *m, uint64_t slots)
{
	struct cpu *c = m->cpus[0];
	pfn_t out[NR], in[NR];
	uint64_t done = 0;

	assert_int_equal(m->swap_slots, slots);
	for (unsigned i = 0; i < NR; i++) {
		out[i] = pfn(5000 + (i * 7) % NR);
		in[i] = pfn(6000 + (i * 3) % NR);
		set_first_word(m, out[i], 1000 + i);
	}
	assert_int_equal(machine_swap_io(c, slots - NR, out, NR, true, &done), 0);
	assert_true(done >= machine_now_ns(c) || !m->tags);
	for (unsigned i = 0; i < NR; i++)
		set_first_word(m, out[i], 5);
	for (unsigned i = 0; i < NR; i += 40)
		assert_int_equal(machine_swap_io(c, slots - NR + i, in + i, 40, false, &done), 0);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(first_word(m, in[i]), 1000 + i);
	/* what nobody has written is zero */
	set_first_word(m, in[0], 5);
	assert_int_equal(machine_swap_io(c, 3, in, 1, false, &done), 0);
	assert_int_equal(first_word(m, in[0]), 0);
}

static void test_contents(void **state)
{
	struct machine *m;
	char err[200] = "";

	(void)state;
	m = model_with_swap(4 << 20);
	move_contents(m, 1024);
	model_destroy(m);
	assert_int_equal(null_create(&(struct null_options){ .swap_bytes = 4 << 20 }, &m, err, sizeof(err)), 0);
	move_contents(m, 1024);
	assert_int_equal(null_counts(m)->swap_writes, NR);
	assert_int_equal(null_counts(m)->swap_reads, NR + 1);
	null_destroy(m);
	assert_int_equal(host_create(&(struct host_options){ .memory = 128 << 20, .nr_cpus = 2, .swap = 4 << 20 }, &m, err, sizeof(err)), 0);
	move_contents(m, 1024);
	/* the whole page, not its first word */
	char *page = machine_ptr(m, 7000 << PAGE_SHIFT);
	pfn_t p = pfn(7000), q = pfn(7001);
	uint64_t done;

	for (unsigned i = 0; i < PAGE_SIZE; i++)
		page[i] = (char)(i * 31);
	assert_int_equal(machine_swap_io(m->cpus[0], 9, &p, 1, true, &done), 0);
	assert_int_equal(machine_swap_io(m->cpus[0], 9, &q, 1, false, &done), 0);
	assert_memory_equal(page, page + PAGE_SIZE, PAGE_SIZE);
	assert_true(done <= machine_now_ns(m->cpus[0]));
	host_destroy(m);
	m = model_with_swap(0);
	assert_int_equal(m->swap_slots, 0);
	model_destroy(m);
}

static void test_no_place_for_a_file(void **state)
{
	const char *was = getenv("TMPDIR");
	char keep[4096], err[200] = "";
	struct machine *m;

	(void)state;
	snprintf(keep, sizeof(keep), "%s", was ? was : "");
	setenv("TMPDIR", "/nonexistent", 1);
	assert_int_equal(host_create(&(struct host_options){ .memory = 128 << 20, .nr_cpus = 2, .swap = 1 << 20 }, &m, err, sizeof(err)), -ENOENT);
	assert_string_equal(err, "host machine: no swap file of 1048576 bytes in /nonexistent: No such file or directory");
	if (was)
		setenv("TMPDIR", keep, 1);
	else
		unsetenv("TMPDIR");
}

/* 80 us a read and 20 a write, two at a time; a page takes 1 us in and 2 us out (4096 and 2048 MB/s). */
static void test_times(void **state)
{
	struct machine *m = model_with_swap(4 << 20);
	struct cpu *c = model_boot_cpu(m);
	pfn_t p[8];
	uint64_t done, start = machine_now_ns(c);

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		p[i] = pfn(5000 + i);
	assert_int_equal(machine_swap_io(c, 0, p, 1, false, &done), 0);
	assert_int_equal(done - start, 81000);
	assert_int_equal(machine_now_ns(c), start); /* the CPU does not wait */
	/* beside it: behind its transfer only */
	assert_int_equal(machine_swap_io(c, 0, p, 1, false, &done), 0);
	assert_int_equal(done - start, 82000);
	/* both places are taken: when the first is free */
	assert_int_equal(machine_swap_io(c, 0, p, 1, false, &done), 0);
	assert_int_equal(done - start, 81000 + 81000);
	assert_int_equal(machine_swap_io(c, 8, p, 8, true, &done), 0);
	assert_int_equal(done - start, 82000 + 16000 + 20000);
	/* long after: idle again; one request is one latency */
	c->m->ops->sleep_ns(c, 10000000);
	start = machine_now_ns(c);
	assert_int_equal(machine_swap_io(c, 8, p, 8, true, &done), 0);
	assert_in_range(done - start, 36000, 36001);
	model_destroy(m);
}

static void test_failures(void **state)
{
	struct machine *m = model_with_swap(1 << 20);
	struct inject *in;
	uint64_t done = 77;
	pfn_t p = pfn(5000);

	(void)state;
	assert_int_equal(inject_attach(m, 1, &in), 0);
	assert_int_equal(inject_set(in, INJECT_IO, INJECT_NTH, 2), 0);
	m->tags[5000] = 9;
	assert_int_equal(machine_swap_io(m->cpus[0], 0, &p, 1, true, &done), 0);
	m->tags[5000] = 5;
	done = 77;
	assert_int_equal(machine_swap_io(m->cpus[0], 0, &p, 1, false, &done), -EIO);
	assert_int_equal(done, 77);
	assert_int_equal(m->tags[5000], 5);
	assert_int_equal(machine_swap_io(m->cpus[0], 0, &p, 1, false, &done), 0);
	assert_int_equal(m->tags[5000], 9);
	inject_detach(in);
	model_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_no_place_for_a_file),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_failures),
	};

	return test_run(tests);
}
