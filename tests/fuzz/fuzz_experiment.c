/* An experiment file from anybody: parsed, or refused with one line that names the place. */
#include "fuzz.h"

#include "lab/experiment.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct experiment e;
	char err[300] = "";
	int rc = experiment_parse("input.yaml", (const char *)data, size, &e, err, sizeof(err));

	if (!rc) {
		fuzz_check(e.nr_cases > 0 && e.cases, "an experiment without cases");
		experiment_done(&e);
		return 0;
	}
	fuzz_check_message(err, sizeof(err));
	fuzz_check(!strncmp(err, "input.yaml", 10), "no place: %s", err);
	return 0;
}
