/*
 * Text from anybody: an address trace, imported to a whole recording, or refused with one line and no recording; a map of memory, as
 * /proc/iomem has it and as /proc/zoneinfo beside a map that is right.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "trace/import.h"
#include "trace/info.h"
#include "workload/memory_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A recording's place must be that of a regular file. */
static const char *place(void)
{
	static char path[200];
	const char *tmp = getenv("TMPDIR");

	if (!path[0])
		snprintf(path, sizeof(path), "%.150s/fuzz-import.%ld.qtr", !access("/dev/shm", W_OK) ? "/dev/shm" : tmp ? tmp : "/tmp", (long)getpid());
	return path;
}

static const char good[] = "00001000-0009ffff : System RAM\n00100000-3fffffff : System RAM\n  01000000-01ffffff : Kernel code\n";

static const char *good_map(void)
{
	static char path[64];
	int fd;

	if (path[0])
		return path;
	fd = memfd_create("iomem", 0);
	fuzz_check(fd >= 0 && write(fd, good, sizeof(good) - 1) == (ssize_t)sizeof(good) - 1, "%d", fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

/* What was let through: lists in order, no more reserved than there is, as much by node as in all. */
static void check_map(int rc, struct memory_map *m, const char *err, size_t errlen)
{
	uint64_t held, all = 0, in_all;

	if (rc) {
		fuzz_check(rc < 0, "%d", rc);
		fuzz_check_message(err, errlen);
		memory_map_done(m);
		return;
	}
	fuzz_check(!memblock_validate(&m->mb.memory, true) && !memblock_validate(&m->mb.reserved, false), "%u", m->mb.memory.nr);
	fuzz_check(m->mb.memory.nr && m->nr_nodes && m->nr_nodes <= MEMORY_MAP_MAX_NODES, "%u", m->nr_nodes);
	in_all = memory_map_frames(m, NID_NONE, 0, MEMBLOCK_NONE, &held);
	fuzz_check(held <= in_all && in_all <= MEMORY_MAP_MAX_BYTES >> PAGE_SHIFT, "%llu", (unsigned long long)in_all);
	for (unsigned i = 0; i < m->nr_nodes; i++)
		all += memory_map_frames(m, (int)i, 0, MEMBLOCK_NONE, &held);
	fuzz_check(all == in_all, "%llu", (unsigned long long)all);
	memory_map_done(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_import_result r;
	struct trace_info info;
	struct memory_map m;
	char err[300] = "";

	if (size > 1 << 16)
		return 0;
	check_map(memory_map_read(fuzz_file(data, size), NULL, &m, err, sizeof(err)), &m, err, sizeof(err));
	check_map(memory_map_read(good_map(), fuzz_file(data, size), &m, err, sizeof(err)), &m, err, sizeof(err));
	if (trace_import(fuzz_file(data, size), IMPORT_AUTO, place(), NULL, &r, err, sizeof(err))) {
		fuzz_check_message(err, sizeof(err));
		fuzz_check(access(place(), F_OK) && errno == ENOENT, "refused, and something was written");
		return 0;
	}
	fuzz_check(!trace_info_read(place(), true, &info, err, sizeof(err)), "%s", err);
	fuzz_check(!info.damaged, "%s", info.error);
	trace_info_done(&info);
	unlink(place());
	return 0;
}
