/* An address trace as text from anybody. */
#include "fuzz.h"

#include "trace/import.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_import_result r;
	char err[300] = "";

	if (size > 1 << 16)
		return 0;
	if (trace_import(fuzz_file(data, size), IMPORT_AUTO, "/dev/null", NULL, &r, err, sizeof(err)))
		fuzz_check_message(err, sizeof(err));
	return 0;
}
