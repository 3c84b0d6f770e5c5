/*
 * Maps of memory as text: what is taken of /proc/iomem and /proc/zoneinfo, and that everything else is refused in one line; a boot on such a
 * map; and this computer's own, zone by zone beside what its Linux says of it, where it may be read.
 */
#include "testing.h"

#include "machine/null.h"
#include "machine/run.h"
#include "mm/alloc_int.h"
#include "workload/memory_map.h"
#include "workload/workload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As a small computer prints it: three parts of memory on two nodes, device memory, what the kernel and others have taken. */
static const char iomem[] = "00000000-00000fff : Reserved\n"
			    "00001000-0009fbff : System RAM\n"
			    "0009fc00-000fffff : Reserved\n"
			    "  000f0000-000fffff : System ROM\n"
			    "00100000-7fffffff : System RAM\n"
			    "  01000000-0220bb07 : Kernel code\n"
			    "  03000000-0327c13f : Kernel data\n"
			    "  30000000-3fffffff : Crash kernel\n"
			    "80000000-febfffff : PCI Bus 0000:00\n"
			    "100000000-17fffffff : System RAM\n"
			    "180000000-27fffffff : Persistent Memory\n"
			    "  180000000-1bfffffff : namespace0.0\n"
			    "  1c0000000-27fffffff : dax0.0\n"
			    "    1c0000000-27fffffff : System RAM (kmem)\n"
			    "fffffffff0000000-ffffffffffffffff : beyond\n";

static const char zoneinfo[] = "Node 0, zone      DMA\n"
			       "  per-node stats\n"
			       "      workingset_nodes 14088\n"
			       "  pages free     3840\n"
			       "        spanned  4095\n"
			       "        present  3998\n"
			       "        managed  3840\n"
			       "        protection: (0, 3019, 5707)\n"
			       "  start_pfn:           1\n"
			       "Node 0, zone    DMA32\n"
			       "        spanned  520192\n"
			       "        present  520192\n"
			       "        managed  500000\n"
			       "  start_pfn:           4096\n"
			       "Node 0, zone   Normal\n"
			       "        spanned  524288\n"
			       "        present  524288\n"
			       "        managed  500000\n"
			       "  start_pfn:           1048576\n"
			       "Node 1, zone  Movable\n"
			       "        spanned  786432\n"
			       "        present  786432\n"
			       "        managed  786432\n"
			       "  start_pfn:           1835008\n"
			       "Node 1, zone   Device\n"
			       "  pages free     0\n"
			       "        spanned  0\n";

static char file_a[64], file_b[64];

static const char *as_file(char path[64], const char *text)
{
	FILE *f;
	int fd;

	if (!path[0]) {
		snprintf(path, 64, "/tmp/quire-map.XXXXXX");
		fd = mkstemp(path);
		assert_true(fd >= 0);
		close(fd);
	}
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return path;
}

static int read_text(const char *io, const char *zi, struct memory_map *m, char err[300])
{
	err[0] = '\0';
	return memory_map_read(as_file(file_a, io), zi ? as_file(file_b, zi) : NULL, m, err, 300);
}

static void expect_range(const struct memblock_list *l, unsigned i, uint64_t start, uint64_t end, int nid)
{
	assert_true(i < l->nr);
	assert_int_equal(l->r[i].start, start);
	assert_int_equal(l->r[i].end, end);
	assert_int_equal(l->r[i].nid, nid);
}

/* Whole frames of memory, every frame that is touched by what is reserved; nested memory of devices is memory. */
static void test_what_is_taken(void **state)
{
	struct memory_map m;
	char err[300];
	uint64_t held;

	(void)state;
	assert_int_equal(read_text(iomem, zoneinfo, &m, err), 0);
	assert_int_equal(m.nr_nodes, 2);
	assert_int_equal(m.mb.memory.nr, 4);
	expect_range(&m.mb.memory, 0, 1, 0x9f, 0);
	expect_range(&m.mb.memory, 1, 0x100, 0x80000, 0);
	expect_range(&m.mb.memory, 2, 0x100000, 0x180000, 0);
	expect_range(&m.mb.memory, 3, 0x1c0000, 0x280000, 1);
	assert_int_equal(m.mb.reserved.nr, 3);
	expect_range(&m.mb.reserved, 0, 0x1000, 0x220c, NID_NONE);
	expect_range(&m.mb.reserved, 1, 0x3000, 0x327d, NID_NONE);
	expect_range(&m.mb.reserved, 2, 0x30000, 0x40000, NID_NONE);
	assert_int_equal(m.nr_zones, 4); /* those with frames */
	assert_int_equal(m.movable[1], 0x1c0000);
	assert_int_equal(m.movable[0], 0);
	for (unsigned i = 0; i < m.nr_zones; i++)
		assert_int_equal(memory_map_frames(&m, m.zone[i].nid, m.zone[i].start, m.zone[i].start + m.zone[i].spanned, &held),
				 m.zone[i].present);
	assert_int_equal(memory_map_frames(&m, 0, 0, MEMBLOCK_NONE, &held), 0x9e + 0x7ff00 + 0x80000);
	assert_int_equal(held, 0x120c + 0x27d + 0x10000);
	assert_int_equal(memory_map_frames(&m, 1, 0, MEMBLOCK_NONE, &held), 0xc0000);
	assert_int_equal(held, 0);
	memory_map_done(&m);
	assert_int_equal(read_text(iomem, NULL, &m, err), 0);
	assert_int_equal(m.nr_nodes, 1);
	assert_int_equal(m.mb.memory.nr, 4);
	expect_range(&m.mb.memory, 3, 0x1c0000, 0x280000, 0);
	memory_map_done(&m);
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *io, *zi, *says;
	} bad[] = {
		{ "", NULL, "has no line 'System RAM'" },
		{ "00000000-00000fff : Reserved\n00001000-00001fff : Reserved\n", NULL, ":2: has no line 'System RAM'" },
		{ "00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n", NULL, "only root may read them" },
		{ "nonsense\n", NULL, ":1: 'nonsense': lines of /proc/iomem are" },
		{ "1000-2000: System RAM\n", NULL, "lines of /proc/iomem are" },
		{ "1000-10000000000000000 : System RAM\n", NULL, "lines of /proc/iomem are" },
		{ "ABC000-ABCFFF : System RAM\n", NULL, "lines of /proc/iomem are" },
		{ "2000-1fff : System RAM\n", NULL, "ends before it starts" },
		{ "1000-400000000fff : System RAM\n", NULL, "64 TiB" },
		{ "1000-ffffffffffffffff : System RAM\n", NULL, "64 TiB" },
		{ "  1000-2fff : System RAM\n", NULL, ":1: nested 1 levels deep under 0" },
		{ " 1000-2fff : System RAM\n", NULL, "two for each level" },
		{ "1000-2fff : System RAM\n  2000-3fff : Kernel code\n", NULL, ":2: the range 2000-3fff is not within" },
		{ "1000-1fff : System RAM\n", "  pages free 1\n", "before the first 'Node N, zone NAME'" },
		{ "1000-1fff : System RAM\n", "Node 64, zone Normal\n", "N from 0 to 63" },
		{ "1000-1fff : System RAM\n", "Node 0 zone Normal\n", ":1: 'Node 0 zone Normal'" },
		{ "1000-1fff : System RAM\n", "Node 0, zone Normal\n", "has no zone with frames" },
		{ "1000-1fff : System RAM\n", "Node 0, zone Normal\n spanned 5\n present 6\n", "each at most the next" },
		{ "1000-1fff : System RAM\n", "Node 0, zone Normal\n spanned 18446744073709551615\n start_pfn: 9\n", "within 64 TiB" },
		{ "1000-8fffff : System RAM\n", "Node 0, zone Normal\n spanned 99\nNode 1, zone Normal\n spanned 99\n", "nodes 0 and 1" },
		{ "0-8fffff : System RAM\n", "Node 0, zone Normal\n spanned 99\nNode 1, zone Normal\n start_pfn: 99\n spanned 99\n", "share a block" },
	};
	struct memory_map m;
	char err[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int rc = read_text(bad[i].io, bad[i].zi, &m, err);

		if (rc >= 0 || !strstr(err, bad[i].says) || strchr(err, '\n'))
			fail_msg("%zu: %d, '%s' instead of '%s'", i, rc, err, bad[i].says);
		memory_map_done(&m);
	}
	assert_int_equal(memory_map_read("/nonexistent/iomem", NULL, &m, err, 300), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent/iomem: No such file"));
	memory_map_done(&m);
}

/* Many ranges: the lists grow, in either order of ranges. */
static void test_many_ranges(void **state)
{
	enum { N = 3000 };
	char *text = malloc(N * 64), err[300];
	struct memory_map m;

	(void)state;
	assert_non_null(text);
	for (int down = 0; down < 2; down++) {
		size_t n = 0;

		for (unsigned i = 0; i < N; i++) {
			unsigned k = down ? N - 1 - i : i;

			n += (size_t)sprintf(text + n, "%x000-%x1fff : System RAM\n  %x000-%x010 : Kernel data\n", k * 0x100, k * 0x10, k * 0x100, k * 0x100);
		}
		assert_int_equal(read_text(text, NULL, &m, err), 0);
		assert_int_equal(m.mb.memory.nr, N);
		assert_int_equal(m.mb.reserved.nr, N);
		expect_range(&m.mb.memory, 7, 0x700, 0x702, 0);
		expect_range(&m.mb.reserved, 7, 0x700, 0x701, NID_NONE);
		memory_map_done(&m);
	}
	free(text);
}

static void boot_on(const char *io, const char *zi, int want, const char *says, struct workload_result *r)
{
	const struct workload_options o = { .map = io, .zoneinfo = zi, .tasks = 0 };
	const struct null_options no = { .nr_cpus = 4, .node_bytes = 12ULL << 30 };
	struct machine *m;
	struct quire *q;
	char err[300] = "";
	int rc;

	assert_int_equal(null_create(&no, &m, err, sizeof(err)), 0);
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), 0);
	rc = workload_run(q, workload_find("boot"), &o, r, err, sizeof(err));
	if (rc != want || !strstr(err, says))
		fail_msg("%d, '%s' instead of '%s'", rc, err, says);
	assert_int_equal(quire_shutdown(q), 0);
	machine_destroy(m);
}

/* Free is what is neither a hole nor reserved, here the file's ranges and the frames that its descriptors take. */
static void test_boot_on_a_map(void **state)
{
	struct workload_result r;
	uint64_t all = 0x9e + 0x7ff00 + 0x80000 + 0xc0000, taken = 0x120c + 0x27d + 0x10000;

	(void)state;
	boot_on(as_file(file_a, iomem), NULL, 0, "", &r);
	assert_int_equal(r.boot.descriptors, all);
	assert_int_equal(r.boot.reserved, taken + (all * 64 + 4095) / 4096);
	assert_int_equal(r.boot.free, all - r.boot.reserved);
	assert_true(r.boot.early > r.boot.reserved); /* DMA32 */
	workload_result_done(&r);
	boot_on(as_file(file_a, iomem), as_file(file_b, zoneinfo), -EINVAL, "2 nodes, the modelled machine has 1", &r);
	workload_result_done(&r);
	boot_on(as_file(file_a, "100000-4ffffffff : System RAM\n"), NULL, -EINVAL, "spans 20480 MiB", &r);
	workload_result_done(&r);
	boot_on(as_file(file_a, "100000-ffffff : System RAM\n"), NULL, 0, "", &r); /* nothing is left for workers */
	assert_int_equal(r.boot.descriptors, 0xf00);
	workload_result_done(&r);
}

/* This computer's: as many frames in each zone as its own kernel counts. */
static void test_this_computers(void **state)
{
	struct memory_map m;
	char err[300];
	int rc = memory_map_read("/proc/iomem", "/proc/zoneinfo", &m, err, sizeof(err));
	uint64_t held;

	(void)state;
	if (rc) {
		assert_true(rc == -EACCES || rc == -ENOENT || rc == -EPERM);
		memory_map_done(&m);
		skip();
	}
	for (unsigned i = 0; i < m.nr_zones; i++)
		assert_int_equal(memory_map_frames(&m, m.zone[i].nid, m.zone[i].start, m.zone[i].start + m.zone[i].spanned, &held),
				 m.zone[i].present);
	memory_map_done(&m);
}

static int remove_files(void **state)
{
	(void)state;
	if (file_a[0])
		unlink(file_a);
	if (file_b[0])
		unlink(file_b);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken),  cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_many_ranges),    cmocka_unit_test(test_boot_on_a_map),
		cmocka_unit_test_teardown(test_this_computers, remove_files),
	};

	return test_run(tests);
}
