/* An address trace as text from anybody: imported to a whole recording, or refused with one line and no recording. */
#define _GNU_SOURCE
#include "fuzz.h"

#include "trace/import.h"
#include "trace/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_import_result r;
	struct trace_info info;
	char err[300] = "";

	if (size > 1 << 16)
		return 0;
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
