/*
 * Machine files: units, every kind of mistake and what is said about it, the shipped machines, the choice of the nearest.
 * `test_desc --keys` prints the tables of docs/machine-files.md, which a test holds against the reader's own table.
 */
#include "testing.h"

#include "base/rng.h"
#include "machine/desc_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char good[] = "title: a test machine\n"
			   "cpu:\n"
			   "  sockets: 2\n"
			   "  cores_per_socket: 4\n"
			   "  frequency: 2GHz\n"
			   "  ipc: 1.75\n"
			   "  window: 200\n"
			   "  outstanding_misses: 10\n"
			   "  store_buffer: 40\n"
			   "cache:\n"
			   "  l1d: { size: 32K, ways: 8, latency: 4cycles }\n"
			   "  l2: { size: 256K, ways: 8, latency: 6ns }\n"
			   "  llc: { size: 45M, ways: 20, latency: 20ns, inclusion: inclusive }\n"
			   "tlb:\n"
			   "  l1: { entries_4k: 64, ways_4k: 4, entries_2m: 32 }\n"
			   "  l2: { entries_4k: 1024, ways_4k: 8, shared_2m: true, latency: 3ns }\n"
			   "prefetch: { enabled: false }\n"
			   "interconnect:\n"
			   "  cache_to_cache: 28ns\n"
			   "  remote_cache_to_cache: 80ns\n"
			   "  link_latency: 50ns\n"
			   "  link_bandwidth: 30.6GB/s\n"
			   "cost: { syscall: 60ns, exception: 290ns, interrupt: 300ns, context_switch: 1us, cr3_load: 80ns,\n"
			   "  ipi_send: 200ns, ipi_deliver: 1us, invlpg: 50ns, flush_all: 100ns, atomic: 8.3ns }\n"
			   "nodes:\n"
			   "  - socket: 0\n"
			   "    memory: 1G\n"
			   "    read_latency: 90ns\n"
			   "    read_bandwidth: 60GB/s\n"
			   "    distances: [10, 21, 40]\n"
			   "  - socket: 1\n"
			   "    memory: 1G\n"
			   "    read_latency: 90ns\n"
			   "    read_bandwidth: 60GB/s\n"
			   "    distances: [21, 10, 50]\n"
			   "  - socket: none\n"
			   "    attached_to: 1\n"
			   "    memory: 2G\n"
			   "    read_latency: 300ns\n"
			   "    write_latency: 60ns\n"
			   "    read_bandwidth: 39.4GB/s\n"
			   "    write_bandwidth: 13.9GB/s\n"
			   "    distances: [40, 50, 10]\n";

static int parse(const char *text, struct machine_desc *d, char *err, size_t errlen)
{
	return machine_desc_parse("m.yaml", text, strlen(text), d, err, errlen);
}

static void test_units(void **state)
{
	static const struct {
		enum desc_unit u;
		const char *text;
		int res;
		uint64_t v;
	} t[] = {
		{ UNIT_SIZE, "48K", 0, 49152 },
		{ UNIT_SIZE, "48KiB", 0, 49152 },
		{ UNIT_SIZE, "1.25M", 0, 1310720 },
		{ UNIT_SIZE, "16T", 0, 1ULL << 44 },
		{ UNIT_SIZE, "64", 0, 64 },
		{ UNIT_SIZE, "64 G", 0, 1ULL << 36 },
		{ UNIT_SIZE, "1.1", -ERANGE, 0 },
		{ UNIT_SIZE, "0.0001K", -ERANGE, 0 },
		{ UNIT_SIZE, "48k", -EINVAL, 0 },
		{ UNIT_SIZE, "48KB", -EINVAL, 0 },
		{ UNIT_SIZE, "-1K", -EINVAL, 0 },
		{ UNIT_SIZE, "K", -EINVAL, 0 },
		{ UNIT_SIZE, "", -EINVAL, 0 },
		{ UNIT_SIZE, "1.K", -EINVAL, 0 },
		{ UNIT_SIZE, ".5K", -EINVAL, 0 },
		{ UNIT_SIZE, "1.2.3K", -EINVAL, 0 },
		{ UNIT_SIZE, "0x10", -EINVAL, 0 },
		{ UNIT_SIZE, "999999999999999999T", -ERANGE, 0 },
		{ UNIT_SIZE, "1999999999999999999", -ERANGE, 0 },
		{ UNIT_TIME, "90ns", 0, 90000 },
		{ UNIT_TIME, "21.2ns", 0, 21200 },
		{ UNIT_TIME, "1.5us", 0, 1500000 },
		{ UNIT_TIME, "3ms", 0, 3000000000ULL },
		{ UNIT_TIME, "1s", 0, 1000000000000ULL },
		{ UNIT_TIME, "7ps", 0, 7 },
		{ UNIT_TIME, "0", 0, 0 },
		{ UNIT_TIME, "90", -EINVAL, 0 },
		{ UNIT_TIME, "0.5ps", -ERANGE, 0 },
		{ UNIT_TIME, "1.0001ns", -ERANGE, 0 },
		{ UNIT_TIME, "4cycles", 0, 1739 },
		{ UNIT_TIME, "1cycle", 0, 435 },
		{ UNIT_TIME, "90NS", -EINVAL, 0 },
		{ UNIT_TIME, "1e3ns", -EINVAL, 0 },
		{ UNIT_FREQ, "2.3GHz", 0, 2300000 },
		{ UNIT_FREQ, "2300MHz", 0, 2300000 },
		{ UNIT_FREQ, "2.3", -EINVAL, 0 },
		{ UNIT_FREQ, "2.3000001GHz", -ERANGE, 0 },
		{ UNIT_BW, "60GB/s", 0, 60000 },
		{ UNIT_BW, "13.9GB/s", 0, 13900 },
		{ UNIT_BW, "60GB", -EINVAL, 0 },
		{ UNIT_BW, "60Gb/s", -EINVAL, 0 },
		{ UNIT_RATIO, "1.75", 0, 1750 },
		{ UNIT_RATIO, "2", 0, 2000 },
		{ UNIT_RATIO, "1.7505", -ERANGE, 0 },
		{ UNIT_COUNT, "36", 0, 36 },
		{ UNIT_COUNT, "3.5", -ERANGE, 0 },
		{ UNIT_COUNT, "36x", -EINVAL, 0 },
		{ UNIT_BOOL, "true", 0, 1 },
		{ UNIT_BOOL, "no", 0, 0 },
		{ UNIT_BOOL, "1", -EINVAL, 0 },
		{ UNIT_REPL, "srrip", 0, REPL_SRRIP },
		{ UNIT_REPL, "fifo", -EINVAL, 0 },
		{ UNIT_INCL, "exclusive", 0, INCL_EXCLUSIVE },
		{ UNIT_SOCKET, "none", 0, UINT32_MAX },
		{ UNIT_SOCKET, "1", 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		uint64_t v = 0;
		int res = desc_parse(t[i].u, t[i].text, 2300000, &v);

		if (res != t[i].res || (!res && v != t[i].v))
			fail_msg("'%s': %d, %llu; expected %d, %llu", t[i].text, res, (unsigned long long)v, t[i].res,
				 (unsigned long long)t[i].v);
	}
	/* Cycles are worth nothing without a frequency. */
	assert_int_equal(desc_parse(UNIT_TIME, "4cycles", 0, &(uint64_t){ 0 }), -EINVAL);
}

/* What is written out reads back as the same, for every unit that has numbers. */
static void test_format(void **state)
{
	static const enum desc_unit units[] = { UNIT_COUNT, UNIT_SIZE, UNIT_TIME, UNIT_FREQ, UNIT_BW, UNIT_RATIO };
	struct rng rng;
	char buf[32];

	(void)state;
	rng_init(&rng, 1, "format");
	for (unsigned i = 0; i < 3000; i++) {
		enum desc_unit u = units[i % ARRAY_SIZE(units)];
		uint64_t v = (rng_next(&rng) >> (5 + rng_below(&rng, 55))) * (i % 2 ? 1 : 1000), back = 0;

		if (v > 100000000000000000ULL)
			continue;
		assert_int_equal(desc_parse(u, desc_format(u, v, buf, sizeof(buf)), 0, &back), 0);
		assert_int_equal(back, v);
	}
	assert_string_equal(desc_format(UNIT_SIZE, 49152, buf, sizeof(buf)), "48K");
	assert_string_equal(desc_format(UNIT_TIME, 1500000, buf, sizeof(buf)), "1500ns");
	assert_string_equal(desc_format(UNIT_FREQ, 10000000, buf, sizeof(buf)), "10GHz");
	assert_string_equal(desc_format(UNIT_RATIO, 100, buf, sizeof(buf)), "0.1");
	assert_string_equal(desc_format(UNIT_SOCKET, UINT32_MAX, buf, sizeof(buf)), "none");
	assert_string_equal(desc_format(UNIT_SIZE, 100, buf, sizeof(buf)), "100");
}

static void test_good(void **state)
{
	struct machine_desc d;
	char err[400];

	(void)state;
	assert_int_equal(parse(good, &d, err, sizeof(err)), 0);
	assert_string_equal(d.name, "m");
	assert_string_equal(d.title, "a test machine");
	assert_null(d.source);
	assert_int_equal(d.threads_per_core, 1);
	assert_int_equal(d.freq_khz, 2000000);
	assert_int_equal(d.ipc_milli, 1750);
	assert_int_equal(d.timeslice_ps, 3000000000ULL);
	assert_int_equal(d.l1d.latency_ps, 2000);
	assert_int_equal(d.l1d.replacement, REPL_LRU);
	assert_int_equal(d.llc.inclusion, INCL_INCLUSIVE);
	assert_int_equal(d.dtlb.ways_2m, 32); /* not given: fully associative */
	assert_int_equal(d.dtlb.entries_1g, 0);
	assert_true(d.stlb.shared_2m);
	assert_false(d.prefetch.enabled);
	assert_false(d.tlbi.broadcast);
	assert_int_equal(d.link_bw_MBps, 30600);
	assert_int_equal(d.cost.atomic_ps, 8300);
	assert_int_equal(d.nr_nodes, 3);
	assert_int_equal(d.nodes[0].write_latency_ps, 90000); /* not given: as reading */
	assert_int_equal(d.nodes[0].write_bw_MBps, 60000);
	assert_int_equal(d.nodes[2].socket, -1);
	assert_int_equal(d.nodes[2].attached_to, 1);
	assert_int_equal(d.nodes[2].write_bw_MBps, 13900);
	assert_int_equal(d.distance[2][1], 50);
	assert_int_equal(d.distance[1][1], 10);
	machine_desc_done(&d);
}

/* `good` with its first `from` replaced by `to`; from NULL: to alone. Freed by the caller. */
static char *changed(const char *from, const char *to)
{
	const char *at = from ? strstr(good, from) : good;
	size_t skip = from ? strlen(from) : strlen(good), len = strlen(good) + strlen(to) + 1;
	char *text = malloc(len);

	assert_non_null(at);
	assert_non_null(text);
	snprintf(text, len, "%.*s%s%s", (int)(at - good), good, to, at + skip);
	return text;
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *from, *to, *err;
	} t[] = {
		/* keys */
		{ "  sockets: 2", "  socket: 2", "3:3: cpu.socket: unknown key; did you mean sockets?" },
		{ "cpu:", "cpux:", "2:1: cpux: unknown key; did you mean cpu?" },
		{ "cpu:", "xyzzy: 1\ncpu:", "2:1: xyzzy: unknown key" },
		{ "ways: 8, l", "weys: 8, l", "11:21: cache.l1d.weys: unknown key; did you mean ways?" },
		{ "    memory: 1G", "    memroy: 1G", "27:5: nodes[0].memroy: unknown key; did you mean memory?" },
		{ "  ipc: 1.75\n", "  ipc: 1.75\n  ipc: 2\n", "7:3: cpu.ipc: given twice, first in line 6" },
		{ "prefetch:", "tlb: { broadcast: no }\nprefetch:", "17:1: tlb: given twice, first in line 14" },
		{ "    memory: 1G\n", "    memory: 1G\n    memory: 2G\n",
		  "28:5: nodes[0].memory: given twice, first in line 27" },
		{ "prefetch:", "cpu.page_walkers: 3\nprefetch:", "17:1: cpu.page_walkers: unknown key" },
		{ "  ipc: 1.75\n", "", "1:1: cpu.ipc: missing: a number with at most three decimals, from 0.1 to 16" },
		{ "    read_latency: 300ns\n", "",
		  "36:5: nodes[2].read_latency: missing: a time such as 90ns, 1.5us or 4cycles, from 1ns to 100us" },
		{ "title: a test machine\n", "", "1:1: title: missing: text of 1 to 127 bytes" },
		/* values */
		{ "sockets: 2", "sockets: two", "3:12: cpu.sockets: two: a whole number, from 1 to 8" },
		{ "sockets: 2", "sockets: 9", "3:12: cpu.sockets: 9: a whole number, from 1 to 8" },
		{ "sockets: 2", "sockets: 0", "3:12: cpu.sockets: 0: a whole number, from 1 to 8" },
		{ "sockets: 2", "sockets:", "3:11: cpu.sockets: no value: a whole number, from 1 to 8" },
		{ "sockets: 2", "sockets: [2]", "3:12: cpu.sockets: a list: a whole number, from 1 to 8" },
		{ "sockets: 2", "sockets: {a: 2}", "3:12: cpu.sockets: a mapping: a whole number, from 1 to 8" },
		{ "2GHz", "2", "5:14: cpu.frequency: 2: a frequency such as 2.3GHz, from 100MHz to 10GHz" },
		{ "2GHz", "99MHz", "5:14: cpu.frequency: 99MHz: a frequency such as 2.3GHz, from 100MHz to 10GHz" },
		{ "32K", "32k", "11:16: cache.l1d.size: 32k: a size such as 48K, 2M or 64G, from 1K to 16G" },
		{ "32K", "\"32K\\nx\"", "11:16: cache.l1d.size: 32K x: a size such as 48K, 2M or 64G, from 1K to 16G" },
		{ "32K", "\"32\\0K\"", "11:16: cache.l1d.size: a NUL character is not allowed" },
		{ "inclusion: inclusive", "inclusion: maybe",
		  "13:57: cache.llc.inclusion: maybe: inclusive, non_inclusive or exclusive" },
		{ "enabled: false", "enabled: 0", "17:22: prefetch.enabled: 0: true or false" },
		{ "6ns", "6", "12:39: cache.l2.latency: 6: a time such as 90ns, 1.5us or 4cycles, from 100ps to 1us" },
		{ "30.6GB/s", "30.6", "22:19: interconnect.link_bandwidth: 30.6: a bandwidth such as 60GB/s, from 1MB/s to 10TB/s" },
		{ "a test machine", "\"a\\nb\"", "1:8: title: a b: one line of text" },
		{ "socket: none", "socket: nowhere", "36:13: nodes[2].socket: nowhere: a socket's number, or none, from 0 to 7" },
		/* shape */
		{ NULL, "", "1:1: an empty file" },
		{ NULL, "# nothing\n", "2:1: an empty file" },
		{ NULL, "- a\n- b\n", "1:1: not a machine file: it must begin with a key such as 'title:'" },
		{ NULL, "hello", "1:1: not a machine file: it must begin with a key such as 'title:'" },
		{ NULL, "title: x\n---\ntitle: y\n", "2:1: a second document; a file describes one machine" },
		{ NULL, "a: [\n", "1:1: a: unknown key" },
		{ NULL, "title: \"x\n", "2:1: not YAML: found unexpected end of stream" },
		{ NULL, "title: x\n\tcpu: 1\n", "2:1: not YAML: found a tab character that violates indentation" },
		{ NULL, "title: \x01\n", "1:1: not YAML: control characters are not allowed" },
		{ NULL, "title: \xff\n", "1:1: not YAML: invalid leading UTF-8 octet" },
		{ NULL, "title: &a x\n", "1:8: anchors (&name) are not allowed in machine files" },
		{ NULL, "cpu: &a { sockets: 1 }\n", "1:6: anchors (&name) are not allowed in machine files" },
		{ NULL, "nodes: &a [ *a ]\n", "1:8: anchors (&name) are not allowed in machine files" },
		{ NULL, "title: *a\n", "1:8: aliases (*name) are not allowed in machine files" },
		{ NULL, "cpu: 3\n", "1:6: cpu: a mapping of keys is expected" },
		{ NULL, "cpu: { [a]: 3 }\n", "1:8: cpu: a key is a word" },
		{ NULL, "nodes: 3\n", "1:8: nodes: a list of nodes, each a mapping" },
		{ NULL, "nodes: [3]\n", "1:9: nodes: a list of nodes, each a mapping" },
		{ NULL, "nodes: [{ {}: 1 }]\n", "1:11: nodes: a key is a word" },
		{ "nodes:\n", "nodes: [{ socket: 0 }]\nnodes:\n", "27:3: nodes: given twice, first in line 25" },
		{ "[10, 21, 40]", "10", "30:16: nodes[0].distances: a list of whole numbers such as [10, 21]" },
		{ "[10, 21, 40]", "[10, [21], 40]", "30:21: nodes[0].distances: a list of whole numbers such as [10, 21]" },
		/* what does not fit together */
		{ "cores_per_socket: 4", "cores_per_socket: 600",
		  "4:21: cpu.cores_per_socket: 600: sockets times cores times threads is 1200; at most 1024 CPUs" },
		{ "size: 45M", "size: 45001K", "13:16: cache.llc.size: 45001K: a multiple of 20 ways times 64 bytes" },
		{ "size: 256K", "size: 16K", "12:15: cache.l2.size: 16K: at least the size of cache.l1d" },
		{ "45M, ways: 20", "512K, ways: 16",
		  "13:16: cache.llc.size: 512K: an inclusive last level holds at least the L2s of its 4 cores" },
		{ "latency: 6ns", "latency: 1.9ns",
		  "12:39: cache.l2.latency: 1.9ns: at least the latency of the level before (latencies are in all, not added up)" },
		{ "latency: 20ns", "latency: 5ns",
		  "13:40: cache.llc.latency: 5ns: at least the latency of the level before (latencies are in all, not added up)" },
		{ "entries_4k: 64,", "entries_4k: 66,", "15:21: tlb.l1.entries_4k: 66: a multiple of the 4 ways" },
		{ "entries_2m: 32 }", "entries_2m: 128 }",
		  "15:49: tlb.l1.entries_2m: 128: at most 64 where tlb.l1.ways_2m is not given (fully associative)" },
		{ "entries_2m: 32 }", "ways_2m: 32 }", "15:46: tlb.l1.ways_2m: 32: not without tlb.l1.entries_2m" },
		{ "shared_2m: true", "shared_2m: true, entries_2m: 8",
		  "16:68: tlb.l2.entries_2m: 8: not together with tlb.l2.shared_2m" },
		{ "tlb:\n", "tlb:\n  broadcast: yes\n",
		  "1:1: cost.tlbi_broadcast: missing: a time such as 90ns, 1.5us or 4cycles, from 0 to 100us" },
		{ "  link_latency: 50ns\n", "",
		  "1:1: interconnect.link_latency: missing: a time such as 90ns, 1.5us or 4cycles, from 0 to 2us" },
		{ "memory: 1G", "memory: 200M", "27:13: nodes[0].memory: 200M: a multiple of 128M" },
		{ "memory: 1G", "memory: 64M", "27:13: nodes[0].memory: 64M: a size such as 48K, 2M or 64G, from 128M to 16T" },
		{ "socket: 1", "socket: 2",
		  "31:13: nodes[1].socket: 2: the number of a socket, from 0 to cpu.sockets less 1, or none" },
		{ "socket: 1", "socket: 0", "31:13: nodes[1].socket: 0: a socket has one node; this one has another already" },
		{ "sockets: 2", "sockets: 3", "3:12: cpu.sockets: 3: each socket has a node; none has 'socket: 2'" },
		{ "attached_to: 1", "attached_to: 2", "37:18: nodes[2].attached_to: 2: the number of a node with a socket" },
		{ "attached_to: 1", "attached_to: 9", "37:18: nodes[2].attached_to: 9: the number of a node with a socket" },
		{ "    attached_to: 1\n", "", "36:5: nodes[2].attached_to: missing: a whole number, from 0 to 63" },
		{ "socket: 1\n", "socket: 1\n    attached_to: 0\n",
		  "32:18: nodes[1].attached_to: 0: only for a node without CPUs (socket: none)" },
		{ "    distances: [10, 21, 40]\n", "",
		  "26:5: nodes[0].distances: missing: a list with a distance to each node such as [10, 21]" },
		{ "[10, 21, 40]", "[10, 21]", "30:16: nodes[0].distances: 2 distances, but there are 3 nodes" },
		{ "[10, 21, 40]", "[11, 21, 40]", "30:16: nodes[0].distances: the distance of a node to itself is 10" },
		{ "[21, 10, 50]", "[22, 10, 50]",
		  "35:16: nodes[1].distances: to node 0 more than 10, and the same as back from there (21)" },
		{ "[10, 21, 40]", "[10, 9, 40]", "30:21: nodes[0].distances: 9: a whole number, from 10 to 254" },
		{ "[10, 21, 40]", "[10, 255, 40]", "30:21: nodes[0].distances: 255: a whole number, from 10 to 254" },
	};

	size_t bad = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		char *text = changed(t[i].from, t[i].to), want[400], err[400] = "";
		struct machine_desc d;
		int res = parse(text, &d, err, sizeof(err));

		snprintf(want, sizeof(want), "m.yaml:%s", t[i].err);
		if (res != -EINVAL || strcmp(err, want) != 0) {
			print_error("%zu (%s): %d\n  got      %s\n  expected %s\n", i, t[i].to, res, err, want);
			bad++;
		}
		free(text);
	}
	assert_int_equal(bad, 0);
}

/* The first node is one with CPUs, and the sum of memory is bounded: too long for the table above. */
static void test_node_limits(void **state)
{
	struct machine_desc d;
	char err[400], *text = malloc(1 << 16);
	size_t base = (size_t)(strstr(good, "nodes:\n") - good), n;

	(void)state;
	assert_non_null(text);
	n = (size_t)sprintf(text, "%.*snodes:\n- { socket: none, attached_to: 1, memory: 1G, read_latency: 90ns, "
			    "read_bandwidth: 1GB/s, distances: [10, 20, 20] }\n", (int)base, good);
	sprintf(text + n, "- { socket: 0, memory: 1G, read_latency: 90ns, read_bandwidth: 1GB/s, distances: [20, 10, 20] }\n"
			  "- { socket: 1, memory: 1G, read_latency: 90ns, read_bandwidth: 1GB/s, distances: [20, 20, 10] }\n");
	assert_int_equal(parse(text, &d, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "m.yaml:26:13: nodes[0].socket: none: the first node has CPUs");

	for (unsigned nodes = 64; nodes <= 65; nodes++) {
		n = (size_t)sprintf(text, "%.*snodes:\n", (int)base, good);
		for (unsigned i = 0; i < nodes; i++) {
			n += (size_t)sprintf(text + n, "- { %s, memory: 1T, read_latency: 90ns, read_bandwidth: 1GB/s, distances: [",
					     i == 0 ? "socket: 0" : i == 1 ? "socket: 1" : "socket: none, attached_to: 0");
			for (unsigned j = 0; j < nodes; j++)
				n += (size_t)sprintf(text + n, "%s%u", j ? "," : "", i == j ? 10 : 20);
			n += (size_t)sprintf(text + n, "] }\n");
		}
		if (nodes == 64) {
			assert_int_equal(parse(text, &d, err, sizeof(err)), 0);
			assert_int_equal(d.nr_nodes, 64);
			*strstr(text, "1T") = '2';
			assert_int_equal(parse(text, &d, err, sizeof(err)), -EINVAL);
			assert_string_equal(err, "m.yaml:89:43: nodes[63].memory: 1T: at most 64T in all");
		} else {
			assert_int_equal(parse(text, &d, err, sizeof(err)), -EINVAL);
			assert_string_equal(err, "m.yaml:26:275: nodes[0].distances: more than 64 distances");
		}
	}
	/* One node needs no distances. */
	sprintf(text, "%.*snodes: [ { socket: 0, memory: 1G, read_latency: 90ns, read_bandwidth: 1GB/s } ]\n", (int)base, good);
	memcpy(strstr(text, "sockets: 2"), "sockets: 1", 10);
	assert_int_equal(parse(text, &d, err, sizeof(err)), 0);
	assert_int_equal(d.distance[0][0], 10);
	free(text);
}

/* Cut at every place and with any byte changed: an error or a machine, never a crash or a complaint without a text. */
static void test_damaged(void **state)
{
	struct machine_desc d;
	struct rng rng;
	char *text = malloc(sizeof(good)), err[60];

	(void)state;
	assert_non_null(text);
	rng_init(&rng, 7, "damage");
	for (size_t n = 0; n < sizeof(good) - 1; n++) {
		int res = machine_desc_parse("m.yaml", good, n, &d, err, sizeof(err));

		assert_true(res == -EINVAL ? err[0] != '\0' : res == 0);
		machine_desc_done(&d);
	}
	for (unsigned i = 0; i < 4000; i++) {
		int res;

		memcpy(text, good, sizeof(good));
		for (unsigned k = 0; k <= i % 3; k++)
			text[rng_below(&rng, sizeof(good) - 1)] = (char)rng_next(&rng);
		res = machine_desc_parse("m.yaml", text, sizeof(good) - 1, &d, err, sizeof(err));
		assert_true(res == -EINVAL ? err[0] != '\0' : res == 0);
		machine_desc_done(&d);
	}
	free(text);
}

static void test_deep(void **state)
{
	const size_t len = 200 << 10;
	struct machine_desc d;
	char *text = malloc(len + 1), err[200];

	(void)state;
	assert_non_null(text);
	for (const char *c = "[{-"; *c; c++) {
		memset(text, *c, len);
		memcpy(text, "cpu: ", 5);
		assert_int_equal(machine_desc_parse("m.yaml", text, len, &d, err, sizeof(err)), -EINVAL);
	}
	/* "a: {a: {a: ..." is stopped at the first key that does not exist. */
	for (size_t i = 0; i + 4 <= len; i += 4)
		memcpy(text + i, "a: {", 4);
	assert_int_equal(machine_desc_parse("m.yaml", text, len, &d, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "m.yaml:1:1: a: unknown key");
	free(text);
}

static void write_file(const char *path, const void *data, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
	char dir[] = "/tmp/test_desc.XXXXXX", path[64], err[400], want[400];
	struct machine_desc d;
	char *big = calloc(1, (256 << 10) + 1);

	(void)state;
	assert_non_null(big);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/small.yaml", dir);
	write_file(path, good, sizeof(good) - 1);
	assert_int_equal(machine_desc_load(path, &d, err, sizeof(err)), 0);
	assert_string_equal(d.name, "small");
	machine_desc_done(&d);
	assert_int_equal(machine_desc_find(path, &d, err, sizeof(err)), 0);
	machine_desc_done(&d);

	memset(big, '#', 256 << 10);
	write_file(path, big, (256 << 10) + 1);
	assert_int_equal(machine_desc_load(path, &d, err, sizeof(err)), -EFBIG);
	snprintf(want, sizeof(want), "%s: larger than 256 KiB, not a machine file", path);
	assert_string_equal(err, want);
	write_file(path, "\177ELF\0\0", 6);
	assert_int_equal(machine_desc_load(path, &d, err, sizeof(err)), -EINVAL);
	snprintf(want, sizeof(want), "%s:1:1: a binary file, not YAML", path);
	assert_string_equal(err, want);
	unlink(path);
	assert_int_equal(machine_desc_load(path, &d, err, sizeof(err)), -ENOENT);
	snprintf(want, sizeof(want), "%s: No such file or directory", path);
	assert_string_equal(err, want);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(machine_desc_load(path, &d, err, sizeof(err)), -EINVAL);
	unlink(path);
	assert_int_equal(machine_desc_load(dir, &d, err, sizeof(err)), -EISDIR);
	assert_int_equal(machine_desc_load("/dev/zero", &d, err, sizeof(err)), -EINVAL);
	rmdir(dir);
	free(big);
}

static int collect(void *arg, const char *name, const char *title)
{
	char *names = arg;

	assert_true(title[0] != '\0');
	assert_true(!names[0] || strcmp(names, name) < 0);
	snprintf(names, 64, "%s", name);
	return 0;
}

static int stop_at_once(void *arg, const char *name, const char *title)
{
	(void)name;
	(void)title;
	++*(int *)arg;
	return 5;
}

static void test_shipped(void **state)
{
	char names[64] = "", err[600];
	struct machine_desc d;
	int calls = 0;

	(void)state;
	assert_int_equal(machine_desc_list(collect, names), 0);
	assert_int_equal(machine_desc_list(stop_at_once, &calls), 5);
	assert_int_equal(calls, 1);
	assert_int_equal(machine_desc_find("xeon-e5-2699v3-2s", &d, err, sizeof(err)), 0);
	assert_string_equal(d.name, "xeon-e5-2699v3-2s");
	assert_non_null(d.source);
	assert_int_equal(d.sockets * d.cores_per_socket * d.threads_per_core, 72);
	assert_int_equal(d.l1d.size, 32 << 10);
	assert_int_equal(d.l2.size, 256 << 10);
	assert_int_equal(d.llc.size, 45 << 20);
	assert_int_equal(d.llc.ways, 20);
	assert_int_equal(d.llc.inclusion, INCL_INCLUSIVE);
	assert_int_equal(d.dtlb.entries_4k, 64);
	assert_int_equal(d.stlb.entries_4k, 1024);
	assert_int_equal(d.window_insns, 192);
	assert_int_equal(d.mshrs, 10);
	assert_int_equal(d.nodes[0].memory + d.nodes[1].memory, 128ULL << 30);
	machine_desc_done(&d);
	assert_int_equal(machine_desc_find("2s-optane", &d, err, sizeof(err)), 0);
	assert_int_equal(d.nodes[3].socket, -1);
	machine_desc_done(&d);
	assert_int_equal(machine_desc_find("arm64-server-128", &d, err, sizeof(err)), 0);
	assert_true(d.tlbi.broadcast);
	assert_true(d.cost.tlbi_broadcast_ps > 0);
	machine_desc_done(&d);

	assert_int_equal(machine_desc_find("no-such", &d, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "no machine 'no-such'; there are 2s-optane, "));
	assert_non_null(strstr(err, "xeon-e5-2699v4-2s, or give a file"));
	assert_non_null(strstr(machine_desc_text("laptop"), "title: laptop"));
	assert_null(machine_desc_text("no-such"));
	/* Whatever this computer is, one of the shipped machines is named. */
	assert_non_null(machine_desc_text(machine_desc_default()));
}

static void test_nearest(void **state)
{
	static const struct {
		struct computer c;
		const char *name;
	} t[] = {
		{ { false, 2, 1, 260ULL << 20, 2 << 20, 24ULL << 30 }, "cloud-2cpu" },
		{ { false, 2, 1, 32 << 20, 1 << 20, 8ULL << 30 }, "cloud-2cpu" },
		{ { false, 8, 1, 8 << 20, 256 << 10, 16ULL << 30 }, "laptop" },
		{ { false, 12, 1, 12 << 20, 1280 << 10, 32ULL << 30 }, "laptop" },
		{ { false, 72, 2, 45 << 20, 256 << 10, 128ULL << 30 }, "xeon-e5-2699v3-2s" },
		{ { false, 88, 2, 55 << 20, 256 << 10, 256ULL << 30 }, "xeon-e5-2699v4-2s" },
		{ { false, 256, 2, 256 << 20, 512 << 10, 1ULL << 40 }, "epyc-2s" },
		{ { false, 96, 4, 36608 << 10, 1 << 20, 1920ULL << 30 }, "2s-optane" },
		{ { true, 4, 1, 0, 1 << 20, 8ULL << 30 }, "arm64-stingray" },
		{ { true, 80, 1, 32 << 20, 1 << 20, 512ULL << 30 }, "arm64-server-128" },
		{ { false, 0, 0, 0, 0, 0 }, "2s-optane" }, /* nothing known: the first */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		if (strcmp(desc_nearest(&t[i].c), t[i].name) != 0)
			fail_msg("%zu: %s instead of %s", i, desc_nearest(&t[i].c), t[i].name);
}

static void test_probe(void **state)
{
	static const struct {
		const char *path, *text;
	} t[] = {
		{ "sys/devices/system/cpu/online", "0-3,8-11\n" },
		{ "sys/devices/system/node/has_memory", "0-1\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index0/level", "1\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index2/level", "2\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index2/size", "2048K\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index3/level", "3\n" },
		{ "sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n" },
		{ "proc/meminfo", "MemTotal:       16777216 kB\n" },
	};
	char dir[] = "/tmp/test_desc.XXXXXX", path[160], cmd[64];
	struct computer c;

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, t[i].path);
		for (char *p = path + 1; (p = strchr(p, '/')); p++) {
			*p = '\0';
			(void)mkdir(path, 0700);
			*p = '/';
		}
		write_file(path, t[i].text, strlen(t[i].text));
	}
	computer_probe(dir, &c);
	assert_int_equal(c.cpus, 8);
	assert_int_equal(c.nodes, 2);
	assert_int_equal(c.l2_bytes, 2 << 20);
	assert_int_equal(c.llc_bytes, 32 << 20);
	assert_int_equal(c.memory, 16ULL << 30);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	assert_int_equal(system(cmd), 0);
	computer_probe(dir, &c);
	assert_int_equal(c.cpus, 0);
	assert_int_equal(c.memory, 0);
}

/* ---- the documentation's tables ---- */

static void row(const struct desc_key *k, const char *prefix, char *buf, size_t len)
{
	static const char *const needs[] = {
		[REQUIRED] = "required",
		[IF_LINKED] = "required with several sockets",
		[IF_BCAST] = "required with tlb.broadcast",
		[IF_FAR] = "required with socket: none",
		[AS_READ] = "as for reading",
		[AS_BEFORE] = "all of cost.tlbi_broadcast",
		[ALL_WAYS] = "fully associative",
		[SEVERAL] = "required with several nodes",
	};
	char allowed[200], def[32] = "none";

	desc_allowed(k, allowed, sizeof(allowed));
	if (k->unit == UNIT_LIST)
		snprintf(allowed, sizeof(allowed), "a list of whole numbers, from 10 to 254");
	if (k->unit != UNIT_TEXT && k->unit != UNIT_BOOL)
		desc_format(k->unit, k->def, def, sizeof(def));
	if (k->unit == UNIT_BOOL)
		snprintf(def, sizeof(def), "%s", k->def ? "true" : "false");
	snprintf(buf, len, "| `%s%s` | %s | %s | %s |\n", prefix, k->path, k->help, allowed,
		 k->need == OPTIONAL ? def : needs[k->need]);
}

static void print_keys(void)
{
	char buf[500];

	for (unsigned i = 0; i < NR_KEYS; i++) {
		row(&desc_keys[i], "", buf, sizeof(buf));
		fputs(buf, stdout);
	}
	puts("");
	for (unsigned i = 0; i < NR_NODE_KEYS; i++) {
		row(&node_keys[i], "", buf, sizeof(buf));
		fputs(buf, stdout);
	}
}

static void test_documented(void **state)
{
	FILE *f = fopen("docs/machine-files.md", "r");
	char *text = calloc(1, 1 << 17), buf[500];

	(void)state;
	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 17) - 1, f) > 0);
	fclose(f);
	for (unsigned i = 0; i < NR_KEYS + NR_NODE_KEYS; i++) {
		row(i < NR_KEYS ? &desc_keys[i] : &node_keys[i - NR_KEYS], "", buf, sizeof(buf));
		if (!strstr(text, buf))
			fail_msg("docs/machine-files.md lacks this row (test_desc --keys prints them all): %s", buf);
	}
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),	cmocka_unit_test(test_format),	    cmocka_unit_test(test_good),
		cmocka_unit_test(test_mistakes), cmocka_unit_test(test_node_limits), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_deep),	cmocka_unit_test(test_files),	    cmocka_unit_test(test_shipped),
		cmocka_unit_test(test_nearest), cmocka_unit_test(test_probe),	    cmocka_unit_test(test_documented),
	};

	if (argc > 1 && !strcmp(argv[1], "--keys")) {
		print_keys();
		return 0;
	}
	return test_run(tests);
}
