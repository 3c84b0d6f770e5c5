/* A machine file from anybody: a description that is checked, and a machine of it that boots, or one line. */
#include "fuzz.h"

#include "machine/desc.h"
#include "machine/model/model.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine_desc d;
	char err[300] = "";
	int rc = machine_desc_load(fuzz_file(data, size), &d, err, sizeof(err));

	if (rc) {
		fuzz_check(rc < 0, "%d", rc);
		fuzz_check_message(err, sizeof(err));
		return 0;
	}
	/* A small one is made as well: what was let through must be enough to do so. */
	uint64_t memory = 0;

	for (unsigned n = 0; n < d.nr_nodes; n++)
		memory += d.nodes[n].memory;
	if (d.sockets * d.cores_per_socket * d.threads_per_core <= 8 && memory <= 8ULL << 30) {
		struct model_options o = { .seed = 1 };
		struct machine *m = NULL;

		rc = model_create(&d, &o, &m, err, sizeof(err));
		if (rc)
			fuzz_check_message(err, sizeof(err));
		else
			model_destroy(m);
	}
	machine_desc_done(&d);
	return 0;
}
